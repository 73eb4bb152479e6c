// The directed links of a cluster as a graph, and the links that lie between two ranks.
//
//   nvswitch node:  GPU ─up► switch ─down► GPU          mesh node:  GPU ─xgmi► GPU, one link per ordered pair
//   between nodes:  GPU ─nic up► leaf ─uplink► spine ─downlink► leaf ─nic down► GPU
//
// The leaf of (rail, pod) joins the NICs of lane `rail` of `nodes_per_leaf` nodes (a pod). All leaves meet in one
// spine; rails only: each rail has a spine of its own. A spine stands for all spine switches: an uplink carries
// what the leaf's uplinks carry together (ideal spreading), NICs of the leaf × rate / oversubscription.
//
// A rate is what the link achieves (peak × efficiency), so that transfers alone on a link take the same time in
// every network model. Links have a length, so that routes are shortest paths:
//
//   inside the node 3 per link, NIC 4, uplink 1: same rail and pod 4 + 4, else through the spine 4 + 1 + 1 + 4,
//   rails only and other rails: to the node mate on the destination's rail first (NCCL's PXN), 3 or 6 more.
//
// Example: 2 nodes of 8 on NVSwitch, one pod: route(0, 9) = {gpu0 up, gpu1 down, gpu1 nic up, gpu9 nic down} when
// rails only, {gpu0 nic up, leaf0 uplink, leaf1 downlink, gpu9 nic down} otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/cluster.h"

namespace meshweave {

enum class LinkClass : std::uint8_t { intra, nic, spine };
std::string_view name_of(LinkClass);

struct Link {
  std::uint32_t from = 0;  // vertices
  std::uint32_t to = 0;
  double bytes_per_s = 0;  // achievable, one direction
  LinkClass kind = LinkClass::intra;
};

class LinkGraph {
 public:
  explicit LinkGraph(const Cluster& cluster);

  const std::vector<Link>& links() const { return links_; }
  // Vertices: ranks first, then node switches, leaves and spines.
  std::size_t vertices() const { return vertices_; }
  // "gpu12 up", "gpu3>gpu5", "gpu12 nic up", "rail4 pod0 downlink".
  std::string link_name(std::uint32_t link) const;
  int length(std::uint32_t link) const;

  // The links from one rank to another, in order; computed in constant time. Empty for the rank itself.
  std::vector<std::uint32_t> route(int source, int destination) const;
  // The one link inside a node between mates of a mesh; or up and down through the switch.
  void append_intra(int source, int destination, std::vector<std::uint32_t>& links) const;

 private:
  int pod_of(int rank) const { return cluster_.node_of(rank) / cluster_.fabric.nodes_per_leaf; }
  std::uint32_t leaf_index(int rank) const;
  void add_node_links();
  void add_fabric_links();
  void append_fabric(int source, int destination, std::vector<std::uint32_t>& links) const;

  Cluster cluster_;
  std::vector<Link> links_;
  std::size_t vertices_ = 0;
  std::uint32_t pods_ = 0;
  std::uint32_t first_nic_ = 0;     // index of the first NIC link: up and down of rank 0, of rank 1, …
  std::uint32_t first_uplink_ = 0;  // up and down of leaf 0, of leaf 1, …
};

}  // namespace meshweave
