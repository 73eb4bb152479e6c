#include "sim/trace/breakdown.h"

#include <string_view>

namespace meshweave {
namespace {

LaneKind lane_kind(std::string_view stream_kind) {
  if (stream_kind == "compute") return LaneKind::compute;
  if (stream_kind == "copy_in" || stream_kind == "copy_out") return LaneKind::copy;
  return LaneKind::communication;
}

}  // namespace

std::vector<Breakdown> break_down(const Trace& trace) {
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
    by_rank.push_back(break_down(last - first, trace.streams.size(), trace.step_begin,
                                 trace.step_end - trace.step_begin, op_at, [](std::size_t, Picoseconds) {}));
    first = last;
  }
  return by_rank;
}

}  // namespace meshweave
