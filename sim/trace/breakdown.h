// Where a rank's step went: every moment of its compute stream is one of
//
//   compute   an op of the compute stream runs
//   exposed   the stream is idle and what it waits for is a transfer that is under way (by stream)
//   bubble    it is idle and what it waits for is a peer that has not yet posted its side, or the end of the step
//   host      it is idle because the host had not issued the next op
//   copy      it is idle and waits for a copy between host and device
//
// and the five add up to the step exactly, in integer picoseconds.
//
// An idle interval before an op is classified backwards along the causes: the op was released by a communication
// that ended just then; while its transfer ran the idle time is exposed, between its launch and its transfer it is
// bubble, and before its launch the question is asked again of what released the communication.
//
//   compute  [fc2]..............[residual]       idle of 14: 6 bubble (the peer came late), 8 exposed
//   tensor        [~~~~~~|======]
//
// The step is taken as periodic: idle time after the last op of a step is idle time before the first op of the
// next, and a cause in the step before has the times of this step less the step's length. A rank that starts its
// step before the recorded step begins is seen from there on for the same length.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "sim/trace/trace.h"

namespace meshweave {

struct Breakdown {
  Picoseconds compute{0};
  Picoseconds bubble{0};
  Picoseconds host{0};
  Picoseconds copy{0};
  std::vector<Picoseconds> exposed;  // by stream

  Picoseconds exposed_total() const {
    Picoseconds sum{0};
    for (const Picoseconds t : exposed) sum += t;
    return sum;
  }
  Picoseconds total() const { return compute + bubble + host + copy + exposed_total(); }
};

enum class LaneKind : std::uint8_t { compute, communication, copy };

// One op of a rank, in issue order, as the breakdown sees it.
struct LaneOp {
  Picoseconds start{0};
  Picoseconds transfer{0};
  Picoseconds end{0};
  std::int64_t cause = -1;           // index of the releasing op, −1 for none
  bool cause_previous_step = false;  // it belongs to the step before
  Release release = Release::none;
  LaneKind kind = LaneKind::compute;  // what the op is
  bool on_compute_stream = true;
  std::uint8_t stream = 0;
};

namespace detail {

inline Picoseconds length(Picoseconds from, Picoseconds to) { return std::max(Picoseconds{0}, to - from); }

// Adds the idle interval [from, to) that ended with the start of op `op` to `sums`.
template <class OpAt, class OnExposed>
void classify_idle(const OpAt& op_at, std::size_t op, Picoseconds from, Picoseconds to, Picoseconds step,
                   const OnExposed& on_exposed, Breakdown& sums) {
  LaneOp current = op_at(op);
  Picoseconds shift{0};
  while (to > from) {
    const bool host = current.release == Release::host;
    if (current.cause < 0) {
      if (!host) break;
      sums.host += to - from;
      return;
    }
    if (current.cause_previous_step) {
      if (shift.count() != 0) break;
      shift = -step;
    }
    const LaneOp cause = op_at(static_cast<std::size_t>(current.cause));
    const Picoseconds end = std::clamp(cause.end + shift, from, to);
    (host ? sums.host : sums.bubble) += to - end;
    to = end;
    if (cause.kind == LaneKind::compute) break;
    const Picoseconds launch = std::clamp(cause.start + shift, from, to);
    if (cause.kind == LaneKind::copy) {
      sums.copy += to - launch;
    } else {
      const Picoseconds transfer = std::clamp(cause.transfer + shift, launch, to);
      sums.exposed[cause.stream] += to - transfer;
      on_exposed(static_cast<std::size_t>(current.cause), to - transfer);
      sums.bubble += transfer - launch;
    }
    to = launch;
    current = cause;
  }
  sums.bubble += to - from;
}

}  // namespace detail

// The breakdown of one rank: `op_at(i)` gives its `ops` ops as LaneOp. `on_compute(i, time)` is told how much of
// the step each op of the compute stream takes; those times add up to Breakdown::compute. `on_exposed(i, time)` is
// told the same of each communication; those times add up to Breakdown::exposed_total().
template <class OpAt, class OnCompute, class OnExposed>
Breakdown break_down(std::size_t ops, std::size_t streams, Picoseconds begin, Picoseconds step, const OpAt& op_at,
                     const OnCompute& on_compute, const OnExposed& on_exposed) {
  Breakdown sums;
  sums.exposed.resize(streams);
  std::size_t first = ops;
  std::size_t last = ops;
  for (std::size_t i = 0; i < ops && first == ops; ++i) {
    if (op_at(i).on_compute_stream) first = i;
  }
  for (std::size_t i = ops; i > 0 && last == ops; --i) {
    if (op_at(i - 1).on_compute_stream) last = i - 1;
  }
  if (first == ops) {
    sums.bubble = step;
    return sums;
  }
  // The rank's window of the step's length: the recorded step, earlier where the rank starts earlier.
  const Picoseconds last_end = op_at(last).end;
  const Picoseconds window = std::max(std::min(begin, op_at(first).start), last_end - step);
  const Picoseconds window_end = window + step;

  Picoseconds cursor = window;
  const auto run = [&](std::size_t i, const LaneOp& op) {
    const Picoseconds from = std::clamp(op.start, window, window_end);
    const Picoseconds to = std::clamp(op.end, from, window_end);
    if (op.kind == LaneKind::compute) {
      sums.compute += to - from;
      on_compute(i, to - from);
    } else if (op.kind == LaneKind::copy) {
      sums.copy += to - from;
    } else {
      const Picoseconds transfer = std::clamp(op.transfer, from, to);
      sums.bubble += transfer - from;
      sums.exposed[op.stream] += to - transfer;
      on_exposed(i, to - transfer);
    }
    cursor = std::max(cursor, to);
  };
  for (std::size_t i = first; i <= last; ++i) {
    const LaneOp op = op_at(i);
    if (!op.on_compute_stream) continue;
    if (i == first) {
      // Idle before the first op and after the last one are one interval of the period.
      const Picoseconds start = std::max(op.start, window);
      const Picoseconds idle = detail::length(std::clamp(last_end, start, window_end) - start, step);
      detail::classify_idle(op_at, i, start - idle, start, step, on_exposed, sums);
      cursor = start;
    } else if (op.start > cursor) {
      detail::classify_idle(op_at, i, cursor, op.start, step, on_exposed, sums);
      cursor = op.start;
    }
    run(i, op);
  }
  return sums;
}

template <class OpAt, class OnCompute>
Breakdown break_down(std::size_t ops, std::size_t streams, Picoseconds begin, Picoseconds step, const OpAt& op_at,
                     const OnCompute& on_compute) {
  return break_down(ops, streams, begin, step, op_at, on_compute, [](std::size_t, Picoseconds) {});
}

using OnSlice = std::function<void(std::size_t slice, Picoseconds time)>;

// The breakdown of every rank of a trace that holds whole ranks (no window). The two functions are told of indices into
// Trace::slices.
std::vector<Breakdown> break_down(const Trace& trace, const OnSlice& on_compute, const OnSlice& on_exposed);
std::vector<Breakdown> break_down(const Trace& trace);

}  // namespace meshweave
