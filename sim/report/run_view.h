// A finished run, as reports see it: references to the scenario, the program and what the replay recorded.
#pragma once

#include <vector>

#include "sim/execute/replay.h"
#include "sim/layout/plan.h"
#include "sim/program/liveness.h"
#include "sim/trace/breakdown.h"

namespace meshweave {

struct RunView {
  const Scenario& scenario;
  const Plan& plan;
  const Program& program;
  const Communicators& communicators;
  const RankClasses& classes;
  const std::vector<Liveness>& liveness;  // by body
  const ReplayResult& replay;
  Executor executor = Executor::analytic;

  const Body& body_of_class(std::size_t c) const {
    return program.bodies[program.body_of_rank[static_cast<std::size_t>(classes.representative[c])]];
  }
};

// How the breakdown sees a stream of this kind.
LaneKind lane_kind(StreamKind kind);
Release release_of(CauseKind kind);

// The ops of one class as the breakdown reads them. `lane(i)` is the i-th op of the body.
class ClassLane {
 public:
  ClassLane(const RunView& run, std::size_t c);

  std::size_t size() const { return slices_.size(); }
  const Body& body() const { return body_; }
  const Slice& slice(std::size_t op) const { return slices_[op]; }

  LaneOp operator()(std::size_t op) const {
    const Slice& s = slices_[op];
    const std::uint8_t stream = streams_[body_.ops[op].spec];
    LaneOp lane{s.start,        s.transfer,  s.end, -1, s.cause_previous_step, release_of(s.cause),
                kinds_[stream], stream == 0, stream};
    if (s.cause_op != no_op) lane.cause = static_cast<std::int64_t>(s.cause_op);
    return lane;
  }

 private:
  const Body& body_;
  const std::vector<Slice>& slices_;
  std::vector<std::uint8_t> streams_;  // by op spec
  std::vector<LaneKind> kinds_;        // by stream
};

// The breakdown of one class; `on_compute(op, time)` as in break_down().
template <class OnCompute>
Breakdown break_down(const RunView& run, const ClassLane& lane, const OnCompute& on_compute) {
  return break_down(lane.size(), run.program.streams.size(), run.replay.begin, run.replay.step, lane, on_compute);
}

}  // namespace meshweave
