#include "sim/report/path_report.h"

namespace meshweave {
namespace {

// The op that ends last; the first one of the lowest class on ties.
std::uint64_t last_node(const RunView& run) {
  std::uint64_t last = no_node;
  Picoseconds end = run.replay.begin;
  for (std::size_t c = 0; c < run.replay.timelines.size(); ++c) {
    const std::vector<Slice>& slices = run.replay.timelines[c].slices;
    for (std::uint32_t i = 0; i < slices.size(); ++i) {
      if (slices[i].end <= end && last != no_node) continue;
      end = slices[i].end;
      last = path_node(c, i);
    }
  }
  return last;
}

bool is_slowed(const Perturbation& p, const Cluster& cluster, int rank) {
  switch (p.target) {
    case PerturbTarget::rank: return p.index == rank;
    case PerturbTarget::node: return cluster.node_of(rank) == p.index;
    case PerturbTarget::link: return p.index == rank;
    case PerturbTarget::jitter: return false;
  }
  return false;
}

}  // namespace

std::vector<PathPiece> critical_path(const RunView& run) {
  const std::uint64_t last = last_node(run);
  if (last == no_node) return {};
  const Partners partners(run.program);
  const auto node_at = [&](std::uint64_t id) {
    const std::size_t c = class_of_node(id);
    const Slice& s = run.replay.timelines[c].slices[op_of_node(id)];
    PathNode node{s.start, s.transfer, s.end, release_of(s.cause), no_node, no_node};
    if (s.cause_op != no_op && !s.cause_previous_step) node.cause = path_node(c, s.cause_op);
    if (s.peer >= 0) {
      const std::uint32_t op = partners.op_at_peer(run.classes.representative[c], op_of_node(id), s.peer);
      const std::size_t other = run.classes.class_of[static_cast<std::size_t>(s.peer)];
      if (op != no_op) node.peer = path_node(other, op);
    }
    return node;
  };
  return critical_path(last, run.replay.begin, node_at);
}

PathReport make_path_report(const RunView& run, const StageIndex& index) {
  PathReport report;
  report.by_stage.resize(index.empty_stages().size());
  report.by_perturbation.resize(run.scenario.perturb.size());
  for (const PathPiece& piece : critical_path(run)) {
    const std::size_t c = class_of_node(piece.node);
    const int rank = run.classes.representative[c];
    const double seconds = seconds_from_picoseconds(piece.to - piece.from);
    report.by_stage[index.of(rank)] += seconds;
    if (piece.kind == PathKind::host) {
      report.host_s += seconds;
      continue;
    }
    if (piece.kind == PathKind::start) {
      report.start_s += seconds;
      continue;
    }
    const Body& body = run.body_of_class(c);
    const StreamKind stream = run.program.streams[run.program.spec(body.ops[op_of_node(piece.node)]).stream].kind;
    switch (lane_kind(stream)) {
      case LaneKind::compute: report.compute_s += seconds; break;
      case LaneKind::copy: report.copy_s += seconds; break;
      case LaneKind::communication: report.transfer_s[static_cast<std::size_t>(stream)] += seconds; break;
    }
    for (std::size_t p = 0; p < run.scenario.perturb.size(); ++p) {
      if (is_slowed(run.scenario.perturb[p], run.scenario.cluster, rank)) report.by_perturbation[p] += seconds;
    }
  }
  return report;
}

}  // namespace meshweave
