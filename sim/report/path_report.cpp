#include "sim/report/path_report.h"

#include <algorithm>
#include <span>

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

// Whether a communication of `rank` uses the perturbed link: its owner takes part, and so does a rank to which the
// link leads.
bool uses_link(const RunView& run, const Perturbation& p, int rank, const Body& body, const Op& op) {
  const Cluster& cluster = run.scenario.cluster;
  const auto leads_to = [&](int other) {
    const bool other_node = cluster.node_of(other) != cluster.node_of(p.index);
    return other != p.index && other_node == (p.link == "nic");
  };
  const OpSpec& spec = run.program.spec(op);
  if (is_collective(spec.kind)) {
    const Communicators::Of& group = run.communicators.by_group[spec.group];
    const std::span<const int> members = group.of(group.instance_of[static_cast<std::size_t>(rank)]);
    return std::find(members.begin(), members.end(), p.index) != members.end() &&
           std::any_of(members.begin(), members.end(), leads_to);
  }
  const std::span<const Message> messages = run.program.messages(body, op);
  return std::any_of(messages.begin(), messages.end(), [&](const Message& m) {
    const int peer = run.program.peer_rank(rank, m.peer);
    return rank == p.index ? leads_to(peer) : peer == p.index && leads_to(rank);
  });
}

// Whether an op of `rank` is one that the perturbation makes slower or faster. Jitter touches all compute ops, so it
// has none of its own.
bool touches(const RunView& run, const Perturbation& p, int rank, const Body& body, const Op& op) {
  const LaneKind lane = lane_kind(run.program.streams[run.program.spec(op).stream].kind);
  switch (p.target) {
    case PerturbTarget::rank: return lane == LaneKind::compute && p.index == rank;
    case PerturbTarget::node: return lane == LaneKind::compute && run.scenario.cluster.node_of(rank) == p.index;
    case PerturbTarget::link: return lane == LaneKind::communication && uses_link(run, p, rank, body, op);
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
    const Op& op = body.ops[op_of_node(piece.node)];
    const StreamKind stream = run.program.streams[run.program.spec(op).stream].kind;
    switch (lane_kind(stream)) {
      case LaneKind::compute: report.compute_s += seconds; break;
      case LaneKind::copy: report.copy_s += seconds; break;
      case LaneKind::communication: report.transfer_s[static_cast<std::size_t>(stream)] += seconds; break;
    }
    for (std::size_t p = 0; p < run.scenario.perturb.size(); ++p) {
      if (touches(run, run.scenario.perturb[p], rank, body, op)) report.by_perturbation[p] += seconds;
    }
  }
  return report;
}

}  // namespace meshweave
