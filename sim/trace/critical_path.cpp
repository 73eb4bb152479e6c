#include "sim/trace/critical_path.h"

#include <algorithm>
#include <unordered_set>

namespace meshweave {

std::vector<PathPiece> critical_path(std::uint64_t last, Picoseconds begin,
                                     const std::function<PathNode(std::uint64_t)>& node_at) {
  std::vector<PathPiece> path;
  const auto add = [&](std::uint64_t node, PathKind kind, Picoseconds from, Picoseconds to) {
    from = std::max(from, begin);
    if (to > from) path.push_back({node, kind, from, to});
  };
  std::unordered_set<std::uint64_t> seen;  // a damaged trace may hold a cycle of slices without length
  std::uint64_t id = last;
  PathNode node = node_at(id);
  Picoseconds now = node.end;
  while (now > begin && seen.insert(id).second) {
    const std::uint64_t running = id;
    Picoseconds from = node.transfer;
    if (node.peer != no_node) {
      id = node.peer;
      node = node_at(id);
      from = std::min(from, node.start);
    } else {
      from = node.start;
    }
    add(running, PathKind::op, from, now);
    now = std::min(now, from);

    const bool host = node.release == Release::host;
    if (node.cause == no_node) {
      add(id, host ? PathKind::host : PathKind::start, begin, now);
      break;
    }
    const std::uint64_t released = id;
    id = node.cause;
    node = node_at(id);
    add(released, host ? PathKind::host : PathKind::start, node.end, now);
    now = std::min(now, node.end);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<PathPiece> critical_path(const Trace& trace) {
  if (trace.slices.empty()) return {};
  const auto id_of = [](std::uint32_t slice) { return slice == no_slice ? no_node : std::uint64_t{slice}; };
  const auto node_at = [&](std::uint64_t id) {
    const TraceSlice& s = trace.slices[id];
    const std::uint64_t cause = s.previous_step ? no_node : id_of(s.cause);
    return PathNode{s.start, s.transfer, s.end, s.release, cause, id_of(s.peer)};
  };
  const auto last = std::max_element(trace.slices.begin(), trace.slices.end(),
                                     [](const TraceSlice& a, const TraceSlice& b) { return a.end < b.end; });
  return critical_path(static_cast<std::uint64_t>(last - trace.slices.begin()), trace.step_begin, node_at);
}

}  // namespace meshweave
