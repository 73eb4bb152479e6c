#include "topologies/link_graph.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace meshweave {
namespace {

constexpr std::uint32_t index_of(int i) { return static_cast<std::uint32_t>(i); }

}  // namespace

std::string_view name_of(LinkClass kind) {
  switch (kind) {
    case LinkClass::intra: return "intra";
    case LinkClass::nic: return "nic";
    case LinkClass::spine: return "spine";
  }
  bug("unknown link class");
}

LinkGraph::LinkGraph(const Cluster& cluster) : cluster_(cluster) {
  ensure(cluster.nodes >= 1 && cluster.node.gpus >= 1 && cluster.fabric.nodes_per_leaf >= 1, "an empty cluster");
  pods_ = index_of((cluster.nodes + cluster.fabric.nodes_per_leaf - 1) / cluster.fabric.nodes_per_leaf);
  vertices_ = index_of(cluster.ranks());
  add_node_links();
  first_nic_ = index_of(static_cast<int>(links_.size()));
  first_uplink_ = first_nic_;
  if (cluster.nodes > 1) add_fabric_links();
}

void LinkGraph::add_node_links() {
  const NodeModel& node = cluster_.node;
  const double rate = node.link_bytes_per_s * node.link_efficiency;
  if (node.fabric == NodeFabric::nvswitch) {
    for (int rank = 0; rank < cluster_.ranks(); ++rank) {
      const auto switch_vertex = static_cast<std::uint32_t>(vertices_) + index_of(cluster_.node_of(rank));
      links_.push_back({index_of(rank), switch_vertex, rate, LinkClass::intra});
      links_.push_back({switch_vertex, index_of(rank), rate, LinkClass::intra});
    }
    vertices_ += index_of(cluster_.nodes);
    return;
  }
  for (int rank = 0; rank < cluster_.ranks(); ++rank) {
    const int first = rank - cluster_.lane_of(rank);
    for (int mate = first; mate < first + node.gpus; ++mate) {
      if (mate != rank) links_.push_back({index_of(rank), index_of(mate), rate, LinkClass::intra});
    }
  }
}

void LinkGraph::add_fabric_links() {
  const double nic_rate = cluster_.nic_peak_bytes_per_s() * cluster_.node.nic_efficiency;
  const std::uint32_t rails = index_of(cluster_.node.gpus);
  const auto first_leaf = static_cast<std::uint32_t>(vertices_);
  const std::uint32_t first_spine = first_leaf + rails * pods_;
  vertices_ = first_spine + (cluster_.fabric.cross_rail ? 1 : rails);
  for (int rank = 0; rank < cluster_.ranks(); ++rank) {
    const std::uint32_t leaf = first_leaf + leaf_index(rank);
    links_.push_back({index_of(rank), leaf, nic_rate, LinkClass::nic});
    links_.push_back({leaf, index_of(rank), nic_rate, LinkClass::nic});
  }
  first_uplink_ = index_of(static_cast<int>(links_.size()));
  for (std::uint32_t leaf = 0; leaf < rails * pods_; ++leaf) {
    const int first_node = static_cast<int>(leaf / rails) * cluster_.fabric.nodes_per_leaf;
    const int attached = std::min(cluster_.fabric.nodes_per_leaf, cluster_.nodes - first_node);
    const double rate = attached * nic_rate / cluster_.fabric.oversubscription;
    const std::uint32_t spine = first_spine + (cluster_.fabric.cross_rail ? 0 : leaf % rails);
    links_.push_back({first_leaf + leaf, spine, rate, LinkClass::spine});
    links_.push_back({spine, first_leaf + leaf, rate, LinkClass::spine});
  }
}

std::uint32_t LinkGraph::leaf_index(int rank) const {
  return index_of(pod_of(rank) * cluster_.node.gpus + cluster_.lane_of(rank));
}

std::string LinkGraph::link_name(std::uint32_t link) const {
  const Link& l = links_[link];
  if (l.kind == LinkClass::spine) {
    const std::uint32_t leaf = (link - first_uplink_) / 2;
    const std::uint32_t rails = index_of(cluster_.node.gpus);
    return fmt::format("rail{} pod{} {}", leaf % rails, leaf / rails,
                       (link - first_uplink_) % 2 ? "downlink" : "uplink");
  }
  const bool up = l.from < index_of(cluster_.ranks());
  if (l.kind == LinkClass::nic) return fmt::format("gpu{} nic {}", up ? l.from : l.to, up ? "up" : "down");
  if (cluster_.node.fabric == NodeFabric::mesh) return fmt::format("gpu{}>gpu{}", l.from, l.to);
  return fmt::format("gpu{} {}", up ? l.from : l.to, up ? "up" : "down");
}

int LinkGraph::length(std::uint32_t link) const {
  switch (links_[link].kind) {
    case LinkClass::intra: return 3;
    case LinkClass::nic: return 4;
    case LinkClass::spine: return 1;
  }
  bug("unknown link class");
}

void LinkGraph::append_intra(int source, int destination, std::vector<std::uint32_t>& links) const {
  ensure(cluster_.node_of(source) == cluster_.node_of(destination), "ranks of two nodes share no inner link");
  if (source == destination) return;
  if (cluster_.node.fabric == NodeFabric::nvswitch) {
    links.push_back(index_of(2 * source));
    links.push_back(index_of(2 * destination + 1));
    return;
  }
  const int to = cluster_.lane_of(destination);
  const int skip = to > cluster_.lane_of(source) ? 1 : 0;
  links.push_back(index_of(source * (cluster_.node.gpus - 1) + to - skip));
}

void LinkGraph::append_fabric(int source, int destination, std::vector<std::uint32_t>& links) const {
  links.push_back(first_nic_ + index_of(2 * source));
  if (leaf_index(source) != leaf_index(destination)) {
    links.push_back(first_uplink_ + 2 * leaf_index(source));
    links.push_back(first_uplink_ + 2 * leaf_index(destination) + 1);
  }
  links.push_back(first_nic_ + index_of(2 * destination + 1));
}

std::vector<std::uint32_t> LinkGraph::route(int source, int destination) const {
  std::vector<std::uint32_t> links;
  if (cluster_.node_of(source) == cluster_.node_of(destination)) {
    append_intra(source, destination, links);
    return links;
  }
  int exit = source;
  if (!cluster_.fabric.cross_rail) {
    exit = source - cluster_.lane_of(source) + cluster_.lane_of(destination);
    append_intra(source, exit, links);
  }
  append_fabric(exit, destination, links);
  return links;
}

}  // namespace meshweave
