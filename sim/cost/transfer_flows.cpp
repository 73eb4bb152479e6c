#include "sim/cost/transfer_flows.h"

#include <algorithm>
#include <map>

namespace meshweave {
namespace {

using MembersByNode = std::map<int, std::vector<int>>;

MembersByNode members_by_node(const Cluster& cluster, std::span<const int> members) {
  MembersByNode nodes;
  for (const int rank : members) nodes[cluster.node_of(rank)].push_back(rank);
  return nodes;
}

void add_inner_flows(const Cluster& cluster, const TransferCost& cost, const std::vector<int>& mates,
                     std::vector<Flow>& flows) {
  const std::size_t k = mates.size();
  if (k < 2) return;
  const bool mesh = cluster.node.fabric == NodeFabric::mesh;
  const std::size_t partners = mesh ? std::min(static_cast<std::size_t>(cost.intra_links), k - 1) : 1;
  const double share = 1.0 / static_cast<double>(partners);
  for (std::size_t i = 0; i < k; ++i) {
    for (std::size_t distance = 1; distance <= partners; ++distance) {
      flows.push_back({mates[i], mates[(i + distance) % k], cost.intra_bytes * share, cost.intra_cap * share, false});
    }
  }
}

int partner_on(const Cluster& cluster, const std::vector<int>& next, int rank, std::size_t position) {
  const auto same_lane = std::find_if(
      next.begin(), next.end(), [&](int candidate) { return cluster.lane_of(candidate) == cluster.lane_of(rank); });
  return same_lane != next.end() ? *same_lane : next[position % next.size()];
}

void add_nic_flows(const Cluster& cluster, const TransferCost& cost, const MembersByNode& nodes,
                   std::vector<Flow>& flows) {
  for (auto node = nodes.begin(); node != nodes.end(); ++node) {
    const auto after = std::next(node) == nodes.end() ? nodes.begin() : std::next(node);
    for (std::size_t i = 0; i < node->second.size(); ++i) {
      const int rank = node->second[i];
      flows.push_back({rank, partner_on(cluster, after->second, rank, i), cost.nic_bytes, cost.nic_cap, true});
    }
  }
}

}  // namespace

std::vector<Flow> collective_flows(const Cluster& cluster, const TransferCost& cost, std::span<const int> members) {
  std::vector<Flow> flows;
  const MembersByNode nodes = members_by_node(cluster, members);
  if (cost.intra_bytes > 0) {
    for (const auto& [node, mates] : nodes) add_inner_flows(cluster, cost, mates, flows);
  }
  if (cost.nic_bytes > 0 && nodes.size() > 1) add_nic_flows(cluster, cost, nodes, flows);
  return flows;
}

std::vector<Flow> message_flows(const Cluster& cluster, const TransferCost& cost, int source, int destination) {
  const bool nic = cluster.node_of(source) != cluster.node_of(destination);
  const double cap = !nic                   ? cost.intra_cap
                     : cost.intra_bytes > 0 ? std::min(cost.intra_cap, cost.nic_cap)
                                            : cost.nic_cap;
  const double bytes = std::max(cost.intra_bytes, cost.nic_bytes);
  if (nic || cost.intra_links == 1) return {{source, destination, bytes, cap, nic}};
  std::vector<Flow> stripes;
  const int first = cluster.node_of(source) * cluster.node.gpus;
  for (int lane = cluster.lane_of(destination); std::ssize(stripes) < cost.intra_links; ++lane) {
    const int mate = first + lane % cluster.node.gpus;
    if (mate != source) stripes.push_back({source, mate, bytes / cost.intra_links, cap / cost.intra_links, false});
  }
  return stripes;
}

}  // namespace meshweave
