#include "topologies/link_graph.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "topologies/shortest_route.h"

namespace meshweave {
namespace {

Cluster cluster_of(NodeFabric fabric, int nodes, bool cross_rail, int nodes_per_leaf) {
  Cluster cluster;
  cluster.node.gpus = 4;
  cluster.node.fabric = fabric;
  cluster.node.link_bytes_per_s = 100e9;
  cluster.node.link_efficiency = 0.8;
  cluster.node.nic_bytes_per_s = 50e9;
  cluster.node.nic_efficiency = 0.9;
  cluster.nodes = nodes;
  cluster.fabric.cross_rail = cross_rail;
  cluster.fabric.nodes_per_leaf = nodes_per_leaf;
  return cluster;
}

std::string names_of(const LinkGraph& graph, const std::vector<std::uint32_t>& route) {
  std::string text;
  for (const std::uint32_t link : route) text += (text.empty() ? "" : ", ") + graph.link_name(link);
  return text;
}

bool is_connected(const LinkGraph& graph, const std::vector<std::uint32_t>& route, int source, int destination) {
  auto at = static_cast<std::uint32_t>(source);
  for (const std::uint32_t link : route) {
    if (graph.links()[link].from != at) return false;
    at = graph.links()[link].to;
  }
  return at == static_cast<std::uint32_t>(destination);
}

}  // namespace

TEST_CASE("A route names the links between two ranks", "[topologies]") {
  // 6 nodes of 4 GPUs, 2 nodes per leaf: rank 9 is lane 1 of node 2, in pod 1.
  const LinkGraph graph(cluster_of(NodeFabric::nvswitch, 6, true, 2));
  CHECK(names_of(graph, graph.route(0, 3)) == "gpu0 up, gpu3 down");
  CHECK(names_of(graph, graph.route(1, 5)) == "gpu1 nic up, gpu5 nic down");
  CHECK(names_of(graph, graph.route(1, 9)) == "gpu1 nic up, rail1 pod0 uplink, rail1 pod1 downlink, gpu9 nic down");
  CHECK(names_of(graph, graph.route(0, 5)) == "gpu0 nic up, rail0 pod0 uplink, rail1 pod0 downlink, gpu5 nic down");
  CHECK(graph.route(7, 7).empty());
}

TEST_CASE("On rails only, traffic to another rail is relayed by a node mate", "[topologies]") {
  const LinkGraph mesh(cluster_of(NodeFabric::mesh, 6, false, 2));
  CHECK(names_of(mesh, mesh.route(3, 1)) == "gpu3>gpu1");
  CHECK(names_of(mesh, mesh.route(0, 5)) == "gpu0>gpu1, gpu1 nic up, gpu5 nic down");
  CHECK(names_of(mesh, mesh.route(0, 9)) ==
        "gpu0>gpu1, gpu1 nic up, rail1 pod0 uplink, rail1 pod1 downlink, gpu9 nic down");
}

TEST_CASE("Links carry what they achieve", "[topologies]") {
  // NIC 50 × 0.9 = 45 GB/s; a leaf of 2 nodes has 2 NICs of its rail, oversubscription 2: uplink 2 × 45 / 2 = 45.
  // The last pod holds one node of 5: uplink 45 / 2.
  Cluster cluster = cluster_of(NodeFabric::nvswitch, 5, true, 2);
  cluster.fabric.oversubscription = 2;
  const LinkGraph graph(cluster);
  const auto rate = [&](int source, int destination, std::size_t hop) {
    return graph.links()[graph.route(source, destination)[hop]].bytes_per_s;
  };
  CHECK(rate(0, 1, 0) == Approx(80e9));
  CHECK(rate(0, 4, 0) == Approx(45e9));
  CHECK(rate(0, 8, 1) == Approx(45e9));
  CHECK(rate(16, 0, 1) == Approx(22.5e9));
  // A slower switch port limits the NIC.
  cluster.fabric.port_bytes_per_s = 25e9;
  const LinkGraph limited(cluster);
  CHECK(limited.links()[limited.route(0, 4)[0]].bytes_per_s == Approx(22.5e9));
}

TEST_CASE("Every route is a shortest path of the graph", "[topologies]") {
  const auto fabric = GENERATE(NodeFabric::nvswitch, NodeFabric::mesh);
  const bool cross_rail = GENERATE(true, false);
  const Cluster cluster = cluster_of(fabric, 5, cross_rail, 2);
  const LinkGraph graph(cluster);
  for (int source = 0; source < cluster.ranks(); ++source) {
    for (int destination = 0; destination < cluster.ranks(); ++destination) {
      const auto route = graph.route(source, destination);
      INFO(source << " to " << destination << ": " << names_of(graph, route));
      REQUIRE(is_connected(graph, route, source, destination));
      REQUIRE(route_length(graph, route) == route_length(graph, shortest_route(graph, source, destination)));
    }
  }
}

TEST_CASE("One node has no fabric", "[topologies]") {
  const LinkGraph nvswitch(cluster_of(NodeFabric::nvswitch, 1, true, 32));
  CHECK(nvswitch.links().size() == 8);  // up and down of 4 GPUs
  const LinkGraph mesh(cluster_of(NodeFabric::mesh, 1, true, 32));
  CHECK(mesh.links().size() == 12);  // 4 · 3 ordered pairs
}

TEST_CASE("Link names are distinct", "[topologies]") {
  const auto fabric = GENERATE(NodeFabric::nvswitch, NodeFabric::mesh);
  const LinkGraph graph(cluster_of(fabric, 3, true, 2));
  std::vector<std::string> names;
  for (std::uint32_t l = 0; l < graph.links().size(); ++l) names.push_back(graph.link_name(l));
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

}  // namespace meshweave
