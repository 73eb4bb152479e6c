#include "sim/cost/collective_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "sim/base/error.h"

namespace meshweave {
namespace {

using Algorithm = CollectiveAlgorithm;

// What an algorithm moves and how many latencies it pays, before any curve.
struct Traffic {
  double intra_bytes = 0;
  double nic_bytes = 0;
  double intra_steps = 0;
  double nic_steps = 0;
};

bool runs(Algorithm algorithm, OpKind kind) {
  switch (algorithm) {
    case Algorithm::ring:
      return kind == OpKind::all_reduce || kind == OpKind::all_gather || kind == OpKind::reduce_scatter ||
             kind == OpKind::broadcast || kind == OpKind::reduce;
    case Algorithm::tree:
    case Algorithm::nvls: return kind == OpKind::all_reduce;
    case Algorithm::direct: return kind == OpKind::all_to_all;
    case Algorithm::p2p: return kind == OpKind::point_to_point;
  }
  return false;
}

Traffic ring_traffic(OpKind kind, double payload, const Placement& p) {
  const double n = p.members;
  const double rounds = kind == OpKind::all_reduce ? 2.0 : 1.0;
  const bool rooted = kind == OpKind::broadcast || kind == OpKind::reduce;
  const double bytes = rooted ? payload : rounds * payload * (n - 1) / n;
  const double per_node = p.least_per_node;
  Traffic t;
  t.intra_bytes = p.nodes == 1 ? bytes : bytes * (per_node - 1) / per_node;
  t.nic_bytes = p.nodes == 1 ? 0 : bytes / per_node;
  t.nic_steps = p.nodes == 1 ? 0 : rounds * (p.nodes - 1);
  t.intra_steps = rounds * (n - 1) - t.nic_steps;
  return t;
}

Traffic tree_traffic(double payload, const Placement& p, bool switch_adds) {
  Traffic t;
  const double trees = p.nodes == 2 ? 1.0 : 2.0;
  if (p.most_per_node > 1) t.intra_bytes = switch_adds ? payload : 2 * payload;
  t.nic_bytes = p.nodes == 1 ? 0 : trees * payload / p.least_per_node;
  t.intra_steps = switch_adds ? 2 : 2.0 * (p.most_per_node - 1);
  t.nic_steps = 2 * std::log2(p.nodes);
  return t;
}

Traffic direct_traffic(double payload, const Placement& p) {
  const double n = p.members;
  Traffic t;
  t.intra_bytes = payload * (p.most_per_node - 1) / n;
  t.nic_bytes = payload * (n - p.least_per_node) / n;
  t.intra_steps = p.most_per_node - 1;
  t.nic_steps = n - p.least_per_node;
  return t;
}

Traffic traffic_of(Algorithm algorithm, OpKind kind, double payload, const Placement& p) {
  switch (algorithm) {
    case Algorithm::ring: return ring_traffic(kind, payload, p);
    case Algorithm::tree: return tree_traffic(payload, p, false);
    case Algorithm::nvls: return tree_traffic(payload, p, true);
    case Algorithm::direct: return direct_traffic(payload, p);
    case Algorithm::p2p: break;
  }
  bug("a message is no collective");
}

// The share of the NIC's rate left to a collective over many nodes. A chain goes at the pace of its slowest link;
// the loss is measured where all NICs of a node take part, and not where every pair exchanges directly.
double many_node_share(const Cluster& cluster, Algorithm algorithm, const Placement& p) {
  if (algorithm == Algorithm::direct || p.nodes <= 2 || p.least_per_node < cluster.node.gpus) return 1;
  const FabricModel& fabric = cluster.fabric;
  return std::max(fabric.many_node_floor, 1 - fabric.many_node_loss * (std::log2(p.nodes) - 1));
}

// Links of a member inside its node that a collective among `per_node` members uses. In an all-to-all each part has
// to go to its own member, over the link there.
int links_used(const NodeModel& node, Algorithm algorithm, int per_node, MeshLinks mesh) {
  if (node.fabric != NodeFabric::mesh) return 1;
  if (mesh == MeshLinks::one && algorithm != Algorithm::direct) return 1;
  return std::max(1, per_node - 1);
}

// How much longer a transfer takes because its pipeline fills first.
double filling(const CollectiveCurve& curve, double bytes) {
  return bytes > 0 ? 1 + std::sqrt(curve.pipeline_bytes / bytes) : 1;
}

TransferCost cost_on_curve(const Cluster& cluster, const CollectiveCurve& curve, const Traffic& traffic, int links,
                           double nic_share) {
  TransferCost cost;
  cost.startup = picoseconds_from_seconds(curve.base_s + traffic.intra_steps * curve.intra_hop_s +
                                          traffic.nic_steps * curve.nic_hop_s);
  cost.intra_bytes = traffic.intra_bytes;
  cost.nic_bytes = traffic.nic_bytes;
  cost.intra_links = links;
  cost.intra_cap = cluster.node.link_bytes_per_s * links * curve.intra_efficiency / filling(curve, traffic.intra_bytes);
  cost.nic_cap = cluster.nic_peak_bytes_per_s() * curve.nic_efficiency * nic_share / filling(curve, traffic.nic_bytes);
  cost.algorithm = name_of(curve.algorithm).data();
  cost.protocol = name_of(curve.protocol).data();
  return cost;
}

bool usable(const CollectiveCurve& curve, OpKind kind, const Placement& p) {
  return runs(curve.algorithm, kind) && p.most_per_node >= curve.least_members && p.nodes >= curve.least_nodes &&
         (p.nodes == 1 || curve.nic_efficiency > 0);
}

}  // namespace

Placement placement_of(const Cluster& cluster, std::span<const int> ranks) {
  std::map<int, int> members_on_node;
  for (const int rank : ranks) ++members_on_node[cluster.node_of(rank)];
  Placement p;
  p.members = static_cast<int>(ranks.size());
  p.nodes = static_cast<int>(members_on_node.size());
  p.least_per_node = p.members;
  for (const auto& [node, members] : members_on_node) {
    p.least_per_node = std::min(p.least_per_node, members);
    p.most_per_node = std::max(p.most_per_node, members);
  }
  return p;
}

double intra_rate(const Cluster& cluster, int links) {
  return cluster.node.link_bytes_per_s * cluster.node.link_efficiency * links;
}

double nic_rate(const Cluster& cluster) { return cluster.nic_peak_bytes_per_s() * cluster.node.nic_efficiency; }

double transfer_seconds(const TransferCost& cost, double intra_rate, double nic_rate) {
  double seconds = 0;
  if (cost.intra_bytes > 0) seconds = cost.intra_bytes / std::min(cost.intra_cap, intra_rate);
  if (cost.nic_bytes > 0) seconds = std::max(seconds, cost.nic_bytes / std::min(cost.nic_cap, nic_rate));
  return seconds_from_picoseconds(cost.startup) + seconds;
}

double transfer_seconds(const Cluster& cluster, const TransferCost& cost) {
  return transfer_seconds(cost, intra_rate(cluster, cost.intra_links), nic_rate(cluster));
}

TransferCost collective_cost(const Cluster& cluster, OpKind kind, double payload, const Placement& placement,
                             MeshLinks mesh) {
  TransferCost best;
  if (placement.members <= 1) return best;
  double least = std::numeric_limits<double>::infinity();
  for (const CollectiveCurve& curve : cluster.node.collectives.curves) {
    if (!usable(curve, kind, placement)) continue;
    const Traffic traffic = traffic_of(curve.algorithm, kind, payload, placement);
    const int links = links_used(cluster.node, curve.algorithm, placement.most_per_node, mesh);
    const double share = many_node_share(cluster, curve.algorithm, placement);
    const TransferCost cost = cost_on_curve(cluster, curve, traffic, links, share);
    const double seconds = transfer_seconds(cluster, cost);
    if (seconds >= least) continue;
    least = seconds;
    best = cost;
  }
  ensure(std::isfinite(least), "no collective curve of the node runs " + std::string(name_of(kind)));
  return best;
}

TransferCost message_cost(const Cluster& cluster, double bytes, int source, int destination, int stripes) {
  const bool same_node = cluster.node_of(source) == cluster.node_of(destination);
  const bool relayed =
      !same_node && !cluster.fabric.cross_rail && cluster.lane_of(source) != cluster.lane_of(destination);
  Traffic traffic;
  if (same_node || relayed) traffic.intra_bytes = bytes;
  if (!same_node) traffic.nic_bytes = bytes;
  traffic.intra_steps = same_node || relayed ? 1 : 0;
  traffic.nic_steps = same_node ? 0 : 1;
  const bool striped = same_node && cluster.node.fabric == NodeFabric::mesh;
  const int links = striped ? std::max(1, std::min(stripes, cluster.node.gpus - 1)) : 1;
  const Placement placement = same_node ? Placement{2, 1, 2, 2} : Placement{2, 2, 1, 1};
  TransferCost best;
  double least = std::numeric_limits<double>::infinity();
  for (const CollectiveCurve& curve : cluster.node.collectives.curves) {
    if (!usable(curve, OpKind::point_to_point, placement)) continue;
    const TransferCost cost = cost_on_curve(cluster, curve, traffic, links, 1);
    const double seconds = transfer_seconds(cluster, cost);
    if (seconds >= least) continue;
    least = seconds;
    best = cost;
  }
  ensure(std::isfinite(least), "no curve of the node carries a message");
  return best;
}

}  // namespace meshweave
