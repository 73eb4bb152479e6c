#include "sim/report/emulated_timeline.h"

#include <algorithm>

#include "sim/report/partners.h"

namespace meshweave {

namespace {

class TimelineBuilder {
 public:
  TimelineBuilder(const Program& program, const Communicators& communicators, const std::vector<Waits>& waits,
                  const InterpreterRun& run)
      : program_(program), communicators_(communicators), waits_(waits), run_(run), partners_(program) {}

  ReplayResult build() {
    ReplayResult result;
    std::uint32_t first = ~std::uint32_t{0};
    std::uint32_t last = 0;
    for (const std::vector<OpRounds>& ops : run_.rounds) {
      for (const OpRounds& r : ops) {
        first = std::min(first, r.launched);
        last = std::max(last, r.ended);
      }
    }
    for (int rank = 0; rank < program_.ranks(); ++rank) {
      RankTimeline timeline;
      timeline.rank = rank;
      const std::size_t ops = rounds(rank).size();
      std::vector<std::uint32_t> before(program_.streams.size(), no_op);  // on the stream
      for (std::uint32_t op = 0; op < ops; ++op) {
        timeline.slices.push_back(slice(rank, op, before));
        before[spec(rank, op).stream] = op;
      }
      result.events += ops;
      result.timelines.push_back(std::move(timeline));
    }
    result.begin = time(first);
    result.end = time(last);
    result.step = result.end - result.begin;
    return result;
  }

 private:
  static Picoseconds time(std::uint32_t round) { return logical_tick * static_cast<std::int64_t>(round); }
  const std::vector<OpRounds>& rounds(int rank) const { return run_.rounds[static_cast<std::size_t>(rank)]; }
  std::uint32_t body_of(int rank) const { return program_.body_of_rank[static_cast<std::size_t>(rank)]; }
  const Op& op_of(int rank, std::uint32_t op) const { return program_.bodies[body_of(rank)].ops[op]; }
  const OpSpec& spec(int rank, std::uint32_t op) const { return program_.spec(op_of(rank, op)); }

  Slice slice(int rank, std::uint32_t op, const std::vector<std::uint32_t>& before) const {
    const OpRounds& r = rounds(rank)[op];
    Slice s;
    s.start = time(r.launched);
    s.transfer = time(r.matched);
    s.end = time(r.ended);
    if (r.matched > r.launched) s.peer = late_peer(rank, op, r.matched);
    std::uint32_t released = 0;
    const auto consider = [&](std::uint32_t cause, CauseKind kind) {
      const std::uint32_t ended = rounds(rank)[cause].ended;
      if (ended < released || ended > r.launched) return;
      released = ended;
      s.cause_op = cause;
      s.cause = kind;
    };
    for (const Wait& w : waits_[body_of(rank)].of(op)) {
      if (!w.previous_step) consider(w.op, CauseKind::wait);
    }
    if (before[spec(rank, op).stream] != no_op) consider(before[spec(rank, op).stream], CauseKind::stream);
    return s;
  }

  // A rank that came in the round in which the communication was complete.
  std::int32_t late_peer(int rank, std::uint32_t op, std::uint32_t round) const {
    const auto came_then = [&](int peer) {
      const std::uint32_t theirs = peer == rank ? no_op : partners_.op_at_peer(rank, op, peer);
      return theirs != no_op && rounds(peer)[theirs].launched == round;
    };
    const OpSpec& s = spec(rank, op);
    if (is_collective(s.kind)) {
      const Communicators::Of& group = communicators_.by_group[s.group];
      for (const int member : group.of(group.instance_of[static_cast<std::size_t>(rank)])) {
        if (came_then(member)) return member;
      }
      return -1;
    }
    for (const Message& m : program_.messages(program_.bodies[body_of(rank)], op_of(rank, op))) {
      const int peer = program_.peer_rank(rank, m.peer);
      if (came_then(peer)) return peer;
    }
    return -1;
  }

  const Program& program_;
  const Communicators& communicators_;
  const std::vector<Waits>& waits_;
  const InterpreterRun& run_;
  const Partners partners_;
};

}  // namespace

ReplayResult emulated_timeline(const Program& program, const Communicators& communicators,
                               const std::vector<Waits>& waits, const InterpreterRun& run) {
  return TimelineBuilder(program, communicators, waits, run).build();
}

}  // namespace meshweave
