#include "sim/cost/collective_cost.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "sim/cost/transfer_flows.h"
#include "tests/cost/small_cluster.h"

namespace meshweave {
namespace {

constexpr double megabyte = 1e6;

double seconds_of(const Cluster& cluster, const TransferCost& cost) { return transfer_seconds(cluster, cost); }

}  // namespace

TEST_CASE("A placement counts nodes and members per node", "[cost]") {
  const Cluster cluster = small_cluster(NodeFabric::nvswitch, 3);
  const std::vector<int> ranks{0, 1, 2, 5, 6, 11};  // 3 on node 0, 2 on node 1, 1 on node 2
  const Placement p = placement_of(cluster, ranks);
  CHECK(p.members == 6);
  CHECK(p.nodes == 3);
  CHECK(p.least_per_node == 1);
  CHECK(p.most_per_node == 3);
}

TEST_CASE("Rings in one node", "[cost]") {
  const Cluster cluster = small_cluster(NodeFabric::nvswitch, 1);
  const Placement four{4, 1, 4, 4};
  // 8 MB over 4 members at 100 GB/s. All-reduce: 2·8·3/4 = 12 MB, 120 us; all-gather and reduce-scatter half of it;
  // broadcast and reduce move the whole buffer: 8 MB, 80 us.
  const auto expect = [&](OpKind kind, double bytes, double seconds) {
    const TransferCost cost = collective_cost(cluster, kind, 8 * megabyte, four);
    CHECK(cost.intra_bytes == Approx(bytes));
    CHECK(cost.nic_bytes == 0);
    CHECK(seconds_of(cluster, cost) == Approx(seconds));
  };
  expect(OpKind::all_reduce, 12 * megabyte, 120e-6);
  expect(OpKind::all_gather, 6 * megabyte, 60e-6);
  expect(OpKind::reduce_scatter, 6 * megabyte, 60e-6);
  expect(OpKind::broadcast, 8 * megabyte, 80e-6);
  expect(OpKind::reduce, 8 * megabyte, 80e-6);
  // All-to-all: each of the 3 others gets 8/4 MB: 6 MB.
  expect(OpKind::all_to_all, 6 * megabyte, 60e-6);
}

TEST_CASE("On a mesh a group of n uses n − 1 links per member", "[cost]") {
  const Cluster cluster = small_cluster(NodeFabric::mesh, 1);
  const auto seconds = [&](int members) {
    return seconds_of(cluster,
                      collective_cost(cluster, OpKind::all_gather, 12 * megabyte, {members, 1, members, members}));
  };
  CHECK(seconds(2) == Approx(60e-6));  // 12·1/2 = 6 MB over 1 link
  CHECK(seconds(3) == Approx(40e-6));  // 12·2/3 = 8 MB over 2 links
  CHECK(seconds(4) == Approx(30e-6));  // 12·3/4 = 9 MB over 3 links
  // A message between two mates has their one link.
  CHECK(seconds_of(cluster, message_cost(cluster, 6 * megabyte, 0, 3)) == Approx(60e-6));
}

TEST_CASE("A node of eight on a mesh: 1, 3 and 7 links, or the one of a plain ring", "[cost]") {
  Cluster cluster = small_cluster(NodeFabric::mesh, 2);
  cluster.node.gpus = 8;
  for (CollectiveCurve& curve : cluster.node.collectives.curves) {
    curve.base_s = 10e-6;
    curve.intra_efficiency = 0.8;  // 80 GB/s of a link
  }
  const auto cost = [&](OpKind kind, int members, MeshLinks mesh) {
    return collective_cost(cluster, kind, 56 * megabyte, {members, 1, members, members}, mesh);
  };
  const auto seconds = [&](OpKind kind, int members, MeshLinks mesh) {
    return seconds_of(cluster, cost(kind, members, mesh));
  };
  // Start-up 10 us; all-gather and reduce-scatter of N = 56 MB move N(n − 1)/n over n − 1 links: N/n/80 GB/s = 350,
  // 175 and 87.5 us. All-reduce twice that. Broadcast N over n − 1 links: N/(n − 1)/80 GB/s = 700, 233.3 and 100 us.
  const struct {
    int members, links;
    double gather, broadcast;
  } expected[] = {{2, 1, 350e-6, 700e-6}, {4, 3, 175e-6, 700e-6 / 3}, {8, 7, 87.5e-6, 100e-6}};
  for (const auto& [members, links, gather, broadcast] : expected) {
    CHECK(cost(OpKind::all_gather, members, MeshLinks::all).intra_links == links);
    CHECK(seconds(OpKind::all_gather, members, MeshLinks::all) == Approx(10e-6 + gather));
    CHECK(seconds(OpKind::reduce_scatter, members, MeshLinks::all) == Approx(10e-6 + gather));
    CHECK(seconds(OpKind::all_reduce, members, MeshLinks::all) == Approx(10e-6 + 2 * gather));
    CHECK(seconds(OpKind::broadcast, members, MeshLinks::all) == Approx(10e-6 + broadcast));
    // A plain ring has the same bytes for one link.
    CHECK(cost(OpKind::all_gather, members, MeshLinks::one).intra_links == 1);
    CHECK(seconds(OpKind::all_gather, members, MeshLinks::one) == Approx(10e-6 + links * gather));
    CHECK(seconds(OpKind::reduce_scatter, members, MeshLinks::one) == Approx(10e-6 + links * gather));
    CHECK(seconds(OpKind::all_reduce, members, MeshLinks::one) == Approx(10e-6 + 2 * links * gather));
    CHECK(seconds(OpKind::broadcast, members, MeshLinks::one) == Approx(10e-6 + 700e-6));
    // All-to-all: N/n to every other member, over the link of the pair.
    CHECK(seconds(OpKind::all_to_all, members, MeshLinks::one) == Approx(10e-6 + gather));
  }
}

TEST_CASE("A group that crosses nodes of a mesh uses its NICs", "[cost]") {
  const Cluster cluster = small_cluster(NodeFabric::mesh, 2);
  // All-gather of 8 MB over 2 nodes of 4: 7 MB per member, one hop in four over the NIC: 1.75 MB at 10 GB/s, 175 us.
  // The other 5.25 MB take 17.5 us over 3 links at 100 GB/s, 52.5 us over one.
  const TransferCost all = collective_cost(cluster, OpKind::all_gather, 8 * megabyte, {8, 2, 4, 4});
  CHECK(all.intra_bytes / all.intra_cap == Approx(17.5e-6));
  CHECK(seconds_of(cluster, all) == Approx(175e-6));
  const TransferCost one = collective_cost(cluster, OpKind::all_gather, 8 * megabyte, {8, 2, 4, 4}, MeshLinks::one);
  CHECK(one.intra_bytes / one.intra_cap == Approx(52.5e-6));
  CHECK(seconds_of(cluster, one) == Approx(175e-6));
  // One member per node: 4 MB over the NIC, whatever the mesh does.
  for (const MeshLinks mesh : {MeshLinks::all, MeshLinks::one}) {
    const TransferCost lone = collective_cost(cluster, OpKind::all_gather, 8 * megabyte, {2, 2, 1, 1}, mesh);
    CHECK(lone.intra_bytes == 0);
    CHECK(seconds_of(cluster, lone) == Approx(400e-6));
  }
}

TEST_CASE("The setting for meshes changes nothing on a switch", "[cost]") {
  const Cluster cluster = small_cluster(NodeFabric::nvswitch, 1);
  const Placement four{4, 1, 4, 4};
  const double all = seconds_of(cluster, collective_cost(cluster, OpKind::all_reduce, megabyte, four, MeshLinks::all));
  CHECK(all == seconds_of(cluster, collective_cost(cluster, OpKind::all_reduce, megabyte, four, MeshLinks::one)));
}

TEST_CASE("A striped message has several links of a mesh", "[cost]") {
  const Cluster mesh = small_cluster(NodeFabric::mesh, 2);
  const auto seconds = [&](int destination, int stripes) {
    return seconds_of(mesh, message_cost(mesh, 6 * megabyte, 0, destination, stripes));
  };
  // 6 MB at 100 GB/s per link; a GPU of a node of four has three.
  CHECK(seconds(3, 1) == Approx(60e-6));
  CHECK(seconds(3, 2) == Approx(30e-6));
  CHECK(seconds(3, 3) == Approx(20e-6));
  CHECK(seconds(3, 7) == Approx(20e-6));
  // To another node: 6 MB over the NIC of 10 GB/s.
  CHECK(seconds(4, 3) == Approx(600e-6));
  const Cluster nvswitch = small_cluster(NodeFabric::nvswitch, 2);
  CHECK(seconds_of(nvswitch, message_cost(nvswitch, 6 * megabyte, 0, 3, 3)) == Approx(60e-6));
}

TEST_CASE("Stripes go to the destination and the lanes behind it", "[cost]") {
  const Cluster cluster = small_cluster(NodeFabric::mesh, 2);
  // From rank 5 to rank 7 of the node 4, 5, 6, 7 over two links: 7, then 4; over three also 6.
  const auto destinations = [&](int stripes) {
    const TransferCost cost = message_cost(cluster, 6 * megabyte, 5, 7, stripes);
    std::vector<int> found;
    for (const Flow& flow : message_flows(cluster, cost, 5, 7)) {
      CHECK(flow.source == 5);
      CHECK(flow.bytes == Approx(6 * megabyte / stripes));
      CHECK(flow.cap == Approx(100e9));
      CHECK_FALSE(flow.nic);
      found.push_back(flow.destination);
    }
    return found;
  };
  CHECK(destinations(1) == std::vector<int>{7});
  CHECK(destinations(2) == std::vector<int>{7, 4});
  CHECK(destinations(3) == std::vector<int>{7, 4, 6});
}

TEST_CASE("Rings over nodes leave each node through all its NICs", "[cost]") {
  const Cluster cluster = small_cluster(NodeFabric::nvswitch, 2);
  // 8 members on 2 nodes, 8 MB: the ring moves 2·8·7/8 = 14 MB per member. One hop in four leaves the node, so
  // 14·3/4 = 10.5 MB inside and 14/4 = 3.5 MB over each NIC: max(105 us, 350 us).
  const TransferCost cost = collective_cost(cluster, OpKind::all_reduce, 8 * megabyte, {8, 2, 4, 4});
  CHECK(cost.intra_bytes == Approx(10.5 * megabyte));
  CHECK(cost.nic_bytes == Approx(3.5 * megabyte));
  CHECK(seconds_of(cluster, cost) == Approx(350e-6));
  // One member per node: all bytes over the NIC, 2·8·1/2 = 8 MB.
  const TransferCost lone = collective_cost(cluster, OpKind::all_reduce, 8 * megabyte, {2, 2, 1, 1});
  CHECK(lone.intra_bytes == 0);
  CHECK(lone.nic_bytes == Approx(8 * megabyte));
  // All-to-all: 3/8 of the buffer stays in the node, 4/8 leaves it.
  const TransferCost exchange = collective_cost(cluster, OpKind::all_to_all, 8 * megabyte, {8, 2, 4, 4});
  CHECK(exchange.intra_bytes == Approx(3 * megabyte));
  CHECK(exchange.nic_bytes == Approx(4 * megabyte));
}

TEST_CASE("Start-up counts the steps of the ring", "[cost]") {
  Cluster cluster = small_cluster(NodeFabric::nvswitch, 2);
  CollectiveCurve& ring = cluster.node.collectives.curves.front();
  ring.base_s = 10e-6;
  ring.intra_hop_s = 1e-6;
  ring.nic_hop_s = 5e-6;
  const auto startup = [&](OpKind kind, const Placement& p) { return collective_cost(cluster, kind, 1, p).startup; };
  // All-reduce of 8 on 2 nodes: 14 steps, 2 of them between nodes: 10 + 12 + 10. All-gather: 7 steps, 1 of them.
  CHECK(startup(OpKind::all_reduce, {8, 2, 4, 4}) == picoseconds_from_seconds(32e-6));
  CHECK(startup(OpKind::all_gather, {8, 2, 4, 4}) == picoseconds_from_seconds(21e-6));
  CHECK(startup(OpKind::all_reduce, {4, 1, 4, 4}) == picoseconds_from_seconds(16e-6));
}

TEST_CASE("Filling the pipeline lowers the rate of small transfers", "[cost]") {
  Cluster cluster = small_cluster(NodeFabric::nvswitch, 1);
  cluster.node.collectives.curves.front().pipeline_bytes = 1 * megabyte;
  // 4 MB on the link: 1 + sqrt(1/4) = 1.5 times 40 us.
  const TransferCost cost = collective_cost(cluster, OpKind::broadcast, 4 * megabyte, {4, 1, 4, 4});
  CHECK(seconds_of(cluster, cost) == Approx(60e-6));
}

TEST_CASE("The fastest curve is taken", "[cost]") {
  Cluster cluster = small_cluster(NodeFabric::nvswitch, 1);
  CollectiveCurve fast_start = cluster.node.collectives.curves.front();
  cluster.node.collectives.curves.front().base_s = 20e-6;
  fast_start.protocol = CollectiveProtocol::ll;
  fast_start.intra_efficiency = 0.25;
  cluster.node.collectives.curves.push_back(fast_start);
  CollectiveCurve nvls = fast_start;
  nvls.algorithm = CollectiveAlgorithm::nvls;
  nvls.protocol = CollectiveProtocol::simple;
  nvls.base_s = 20e-6;
  nvls.intra_efficiency = 1;
  nvls.least_members = 4;
  cluster.node.collectives.curves.push_back(nvls);
  const auto name = [&](OpKind kind, double bytes, int members) {
    const TransferCost cost = collective_cost(cluster, kind, bytes, {members, 1, members, members});
    return std::string(cost.algorithm) + " " + cost.protocol;
  };
  // Broadcast of S: LL takes S/25, Simple 20 us + S/100; equal at S = 2/3 MB.
  CHECK(name(OpKind::broadcast, 0.6 * megabyte, 4) == "ring LL");
  CHECK(name(OpKind::broadcast, 0.7 * megabyte, 4) == "ring Simple");
  // The switch adds: S instead of 2S·3/4 on the link; not with 3 members, and for all-reduce only.
  CHECK(name(OpKind::all_reduce, 8 * megabyte, 4) == "nvls Simple");
  CHECK(name(OpKind::all_reduce, 8 * megabyte, 3) == "ring Simple");
  CHECK(name(OpKind::all_gather, 8 * megabyte, 4) == "ring Simple");
}

TEST_CASE("Many full nodes lower the rate of their NICs", "[cost]") {
  Cluster cluster = small_cluster(NodeFabric::nvswitch, 16);
  cluster.fabric.many_node_loss = 0.1;
  cluster.fabric.many_node_floor = 0.75;
  const auto cap = [&](int nodes, int per_node) {
    return collective_cost(cluster, OpKind::all_gather, megabyte, {nodes * per_node, nodes, per_node, per_node})
        .nic_cap;
  };
  CHECK(cap(2, 4) == Approx(10e9));
  CHECK(cap(4, 4) == Approx(9e9));  // one doubling beyond 2
  CHECK(cap(8, 4) == Approx(8e9));
  CHECK(cap(16, 4) == Approx(7.5e9));  // 0.7, but not below the floor
  CHECK(cap(16, 1) == Approx(10e9));
}

TEST_CASE("Messages take the link of the pair or the NIC", "[cost]") {
  Cluster cluster = small_cluster(NodeFabric::nvswitch, 2);
  CHECK(seconds_of(cluster, message_cost(cluster, megabyte, 0, 1)) == Approx(10e-6));
  CHECK(seconds_of(cluster, message_cost(cluster, megabyte, 0, 4)) == Approx(100e-6));
  CHECK(message_cost(cluster, megabyte, 0, 5).intra_bytes == 0);
  // Rails only: a message to another rail first goes to the node mate on that rail.
  cluster.fabric.cross_rail = false;
  CHECK(message_cost(cluster, megabyte, 0, 5).intra_bytes == Approx(megabyte));
  CHECK(message_cost(cluster, megabyte, 0, 4).intra_bytes == 0);
}

TEST_CASE("Time never falls with more bytes", "[cost]") {
  Cluster cluster = small_cluster(GENERATE(NodeFabric::nvswitch, NodeFabric::mesh), 2);
  cluster.node.collectives.curves.front().base_s = 3e-6;
  cluster.node.collectives.curves.front().pipeline_bytes = 5e5;
  const auto kind = GENERATE(OpKind::all_reduce, OpKind::all_gather, OpKind::broadcast, OpKind::all_to_all);
  const Placement placement = GENERATE(Placement{4, 1, 4, 4}, Placement{8, 2, 4, 4}, Placement{2, 2, 1, 1});
  double before = 0;
  for (double bytes = 1; bytes < 1e10; bytes *= 1.7) {
    const double now = seconds_of(cluster, collective_cost(cluster, kind, bytes, placement));
    REQUIRE(now >= before);
    before = now;
  }
}

TEST_CASE("A group of one costs nothing", "[cost]") {
  const Cluster cluster = small_cluster(NodeFabric::nvswitch, 1);
  const TransferCost cost = collective_cost(cluster, OpKind::all_reduce, megabyte, {1, 1, 1, 1});
  CHECK(cost.startup.count() == 0);
  CHECK(seconds_of(cluster, cost) == 0);
}

TEST_CASE("The flows of a plain ring go to the next member only", "[cost]") {
  const Cluster cluster = small_cluster(NodeFabric::mesh, 1);
  const std::vector<int> members{0, 1, 3};
  const TransferCost cost =
      collective_cost(cluster, OpKind::all_gather, 9 * megabyte, placement_of(cluster, members), MeshLinks::one);
  std::vector<std::pair<int, int>> hops;
  for (const Flow& flow : collective_flows(cluster, cost, members)) {
    CHECK(flow.bytes == Approx(6 * megabyte));
    hops.push_back({flow.source, flow.destination});
  }
  CHECK(hops == std::vector<std::pair<int, int>>{{0, 1}, {1, 3}, {3, 0}});
}

TEST_CASE("Flows carry a transfer's bytes and end with it", "[cost]") {
  const auto fabric = GENERATE(NodeFabric::nvswitch, NodeFabric::mesh);
  const Cluster cluster = small_cluster(fabric, 2);
  std::vector<int> members(8);
  std::iota(members.begin(), members.end(), 0);
  const auto mesh = GENERATE(MeshLinks::all, MeshLinks::one);
  const TransferCost cost =
      collective_cost(cluster, OpKind::all_gather, 8 * megabyte, placement_of(cluster, members), mesh);
  const double link = 100e9;
  double slowest = 0;
  std::vector<double> inner(8), outer(8);
  for (const Flow& flow : collective_flows(cluster, cost, members)) {
    (flow.nic ? outer : inner)[static_cast<std::size_t>(flow.source)] += flow.bytes;
    const double rate = std::min(flow.cap, flow.nic ? nic_rate(cluster) : link);
    slowest = std::max(slowest, flow.bytes / rate);
    if (flow.nic) CHECK(cluster.lane_of(flow.source) == cluster.lane_of(flow.destination));
    CHECK((cluster.node_of(flow.source) != cluster.node_of(flow.destination)) == flow.nic);
  }
  for (std::size_t rank = 0; rank < 8; ++rank) {
    CHECK(inner[rank] == Approx(cost.intra_bytes));
    CHECK(outer[rank] == Approx(cost.nic_bytes));
  }
  CHECK(slowest == Approx(seconds_of(cluster, cost)));
}

TEST_CASE("Placement signatures tell apart what costs differently", "[cost]") {
  const Cluster cluster = small_cluster(NodeFabric::nvswitch, 2);
  const auto signature = [&](std::vector<int> ranks) { return placement_signature(cluster, ranks); };
  CHECK(signature({0, 1}) == signature({6, 7}));
  CHECK(signature({0, 4}) == signature({3, 7}));
  CHECK(signature({0, 1}) != signature({0, 4}));
  CHECK(signature({0, 4}) != signature({0, 5}));
  CHECK(signature({0, 1, 4, 5}) != signature({0, 1, 2, 4}));
}

}  // namespace meshweave
