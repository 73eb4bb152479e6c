#include "sim/trace/breakdown.h"

#include <string_view>

namespace meshweave {
namespace {

LaneKind lane_kind(std::string_view stream_kind) {
  if (stream_kind == "compute") return LaneKind::compute;
  for (const std::string_view copy : {"copy_in", "copy_out", "copy-in", "copy-out"}) {
    if (stream_kind == copy) return LaneKind::copy;
  }
  return LaneKind::communication;
}

}  // namespace

std::vector<Breakdown> break_down(const Trace& trace, const OnSlice& on_compute, const OnSlice& on_exposed) {
  std::vector<LaneKind> kinds;
  for (const TraceStream& stream : trace.streams) kinds.push_back(lane_kind(stream.kind));
  std::vector<Breakdown> by_rank;
  std::size_t first = 0;
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    std::size_t last = first;
    while (last < trace.slices.size() && trace.slices[last].rank == rank) ++last;
    const auto op_at = [&](std::size_t i) {
      const TraceSlice& s = trace.slices[first + i];
      LaneOp op{s.start, s.transfer, s.end, -1, s.previous_step, s.release, kinds[s.stream], s.stream == 0, s.stream};
      if (s.cause != no_slice) op.cause = static_cast<std::int64_t>(s.cause - first);
      return op;
    };
    by_rank.push_back(break_down(
        last - first, trace.streams.size(), trace.step_begin, trace.step_end - trace.step_begin, op_at,
        [&](std::size_t i, Picoseconds time) { on_compute(first + i, time); },
        [&](std::size_t i, Picoseconds time) { on_exposed(first + i, time); }));
    first = last;
  }
  return by_rank;
}

std::vector<Breakdown> break_down(const Trace& trace) {
  const OnSlice ignore = [](std::size_t, Picoseconds) {};
  return break_down(trace, ignore, ignore);
}

}  // namespace meshweave
