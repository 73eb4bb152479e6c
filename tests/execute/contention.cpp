// Flows that share links, against max-min fair rates derived by hand. NICs carry 50 GB/s each way.
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "tests/execute/hand_made.h"

namespace meshweave {
namespace {

using testing::bare_cluster;
using testing::bare_mesh;
using testing::HandMade;
using testing::ms_of;
using testing::over_nics;

constexpr std::int64_t mb = 1'000'000;

// The transfer of op `op` of `rank`, in ms.
double transfer_ms(const ReplayResult& result, int rank, std::size_t op) {
  const Slice& slice = result.timelines[static_cast<std::size_t>(rank)].slices[op];
  return ms_of(slice.end - slice.transfer);
}

Approx about(double ms) { return Approx(ms).epsilon(1e-6); }

TEST_CASE("two transfers share a NIC") {
  // Rank 0 sends 100 MB to rank 1 and 50 MB to rank 2 at the same time: 25 GB/s each until the second ends at
  // 50/25 = 2 ms; the first has 50 MB left and the NIC for itself: 1 ms more. Alone they take 2 and 1 ms.
  HandMade p(3, bare_cluster(3));
  const auto a = p.tensor(0, 100 * mb);
  const auto b = p.tensor(0, 50 * mb);
  p.compute(0, 1, {}, {a, b});
  p.message(0, a, 1, p.tensor(1, 100 * mb), 1);
  p.message(0, b, 2, p.tensor(2, 50 * mb), 2);
  const auto program = p.take();
  const ReplayResult shared = replay(program.input(), Executor::simgrid);
  REQUIRE(transfer_ms(shared, 0, 1) == about(3));
  REQUIRE(transfer_ms(shared, 0, 2) == about(2));
  const ReplayResult alone = replay(program.input(), Executor::analytic);
  REQUIRE(transfer_ms(alone, 0, 1) == about(2));
  REQUIRE(transfer_ms(alone, 0, 2) == about(1));
}

TEST_CASE("a flow is slowed only while the other is there") {
  // The second message is posted 1 ms after the first (100 MB): that one has 50 MB left, shares from then on,
  // and both end 50/25 = 2 ms later.
  HandMade p(3, bare_cluster(3));
  const auto a = p.tensor(0, 100 * mb);
  const auto b = p.tensor(0, 50 * mb);
  p.compute(0, 1, {}, {a, b});
  p.message(0, a, 1, p.tensor(1, 100 * mb), 1);
  p.compute(0, 1, {}, {b});
  p.message(0, b, 2, p.tensor(2, 50 * mb), 2);
  const auto program = p.take();
  const ReplayResult result = replay(program.input(), Executor::simgrid);
  REQUIRE(transfer_ms(result, 0, 1) == about(3));
  REQUIRE(transfer_ms(result, 0, 3) == about(2));
}

TEST_CASE("a 2:1 spine halves the flows that cross it") {
  // Leaves of two nodes: their uplinks carry 2·50/2 = 50 GB/s. Two messages of 100 MB cross the spine from
  // the same leaf: 25 GB/s each, 4 ms; a message between the nodes of one leaf keeps its 2 ms.
  Cluster cluster = bare_cluster(6);
  cluster.fabric.oversubscription = 2;
  cluster.fabric.nodes_per_leaf = 2;
  HandMade p(6, cluster);
  const auto send = [&](int source, int destination) {
    const auto t = p.tensor(source, 100 * mb);
    p.compute(source, 1, {}, {t});
    p.message(source, t, destination, p.tensor(destination, 100 * mb), 1);
  };
  send(0, 2);
  send(1, 3);
  send(4, 5);
  const auto program = p.take();
  const ReplayResult result = replay(program.input(), Executor::simgrid);
  REQUIRE(transfer_ms(result, 0, 1) == about(4));
  REQUIRE(transfer_ms(result, 1, 1) == about(4));
  REQUIRE(transfer_ms(result, 4, 1) == about(2));
}

// Ranks 0 and 1 all-reduce 100 MB per member over their NICs while rank 0 sends 50 MB to rank 2.
testing::PlayableProgram all_reduce_beside_message(double cap) {
  HandMade p(3, bare_cluster(3));
  const auto gradient = p.tensor(0);
  const auto activation = p.tensor(0, 50 * mb);
  p.compute(0, 1, {}, {gradient, activation});
  TransferCost cost = over_nics(bare_cluster(3), 2);
  cost.nic_cap = cap;
  p.all_reduce(0, 1, 2, cost, 3, {gradient, p.tensor(1)});
  p.message(0, activation, 2, p.tensor(2, 50 * mb), 2);
  return p.take();
}

TEST_CASE("a data-parallel all-reduce beside a message") {
  // They share the sending side of rank 0's NIC: 25 GB/s each until the message ends at 2 ms; the all-reduce
  // then has 50 MB left at 50 GB/s.
  const auto program = all_reduce_beside_message(1e15);
  const ReplayResult result = replay(program.input(), Executor::simgrid);
  REQUIRE(transfer_ms(result, 0, 2) == about(2));
  REQUIRE(transfer_ms(result, 0, 1) == about(3));
  REQUIRE(transfer_ms(result, 1, 0) == about(3));
}

TEST_CASE("a capped flow leaves its share to the others") {
  // The all-reduce reaches 20 GB/s at most: 100/20 = 5 ms; the message takes the other 30 GB/s: 50/30 ms.
  const auto program = all_reduce_beside_message(20e9);
  const ReplayResult result = replay(program.input(), Executor::simgrid);
  REQUIRE(transfer_ms(result, 0, 1) == about(5));
  REQUIRE(transfer_ms(result, 0, 2) == about(50.0 / 30.0));
}

TEST_CASE("the bytes of the recorded step are counted on their links") {
  const auto program = all_reduce_beside_message(1e15);
  const ReplayResult result = replay(program.input(), Executor::simgrid);
  double sent = 0;
  for (const LinkUse& link : result.links) {
    if (link.link == "gpu0 nic up") sent = link.bytes;
  }
  REQUIRE(sent == Approx(150e6));
}

// The bytes on the links of the recorded step, by name.
std::map<std::string, double> bytes_by_link(const ReplayResult& result) {
  std::map<std::string, double> bytes;
  for (const LinkUse& link : result.links) bytes[link.link] = link.bytes;
  return bytes;
}

TEST_CASE("a striped message and another share one link of a mesh") {
  // Rank 0 sends 150 MB to rank 1 in 3 stripes and 50 MB to rank 2 in one. The link 0>2 carries a stripe of 50 MB and
  // the message: 25 GB/s each, 2 ms for both. Alone each takes 1 ms: 3 links of 50 GB/s, and one.
  HandMade p(4, bare_mesh(4));
  const auto a = p.tensor(0, 150 * mb);
  const auto b = p.tensor(0, 50 * mb);
  p.compute(0, 1, {}, {a, b});
  p.message(0, a, 1, p.tensor(1, 150 * mb), 1, 3);
  p.message(0, b, 2, p.tensor(2, 50 * mb), 2);
  const auto program = p.take();
  const ReplayResult shared = replay(program.input(), Executor::simgrid);
  REQUIRE(transfer_ms(shared, 0, 1) == about(2));
  REQUIRE(transfer_ms(shared, 0, 2) == about(2));
  const auto bytes = bytes_by_link(shared);
  REQUIRE(bytes.at("gpu0>gpu1") == Approx(50e6));
  REQUIRE(bytes.at("gpu0>gpu2") == Approx(100e6));
  REQUIRE(bytes.at("gpu0>gpu3") == Approx(50e6));
  const ReplayResult alone = replay(program.input(), Executor::analytic);
  REQUIRE(transfer_ms(alone, 0, 1) == about(1));
  REQUIRE(transfer_ms(alone, 0, 2) == about(1));
}

TEST_CASE("a ring of striped messages loads every link of the mesh alike") {
  // Every rank of four sends 150 MB to the next in 3 stripes: each of the 12 links carries 50 MB, 1 ms. On one link
  // per hop the same ring takes 3 ms and leaves 8 links idle.
  for (const std::uint8_t stripes : {1, 3}) {
    HandMade p(4, bare_mesh(4));
    for (int rank = 0; rank < 4; ++rank) {
      const int next = (rank + 1) % 4;
      const auto stream = static_cast<std::uint8_t>(rank % 2 + 1);
      p.message(rank, p.tensor(rank, 150 * mb), next, p.tensor(next, 150 * mb), stream, stripes);
    }
    const auto program = p.take();
    const ReplayResult result = replay(program.input(), Executor::simgrid);
    const auto bytes = bytes_by_link(result);
    REQUIRE(bytes.size() == (stripes == 1 ? 4u : 12u));
    for (const auto& [link, carried] : bytes) REQUIRE(carried == Approx(150e6 / stripes));
    REQUIRE(transfer_ms(result, 0, 0) == about(3.0 / stripes));
    REQUIRE(transfer_ms(replay(program.input(), Executor::analytic), 0, 0) == about(3.0 / stripes));
  }
}

TEST_CASE("a plain ring leaves the links that it does not use to others") {
  // Ranks 0 to 3 gather 150 MB each: over one link 3 ms, over three 1 ms. A message of 100 MB from 0 to 2 takes 2 ms
  // beside the plain ring, which does not use its link; the striped ring has 50 MB there: 25 GB/s each until 2 ms, and
  // the last 50 MB of the message in 1 ms more.
  for (const int links : {1, 3}) {
    HandMade p(4, bare_mesh(4));
    TransferCost ring;
    ring.intra_bytes = 150e6;
    ring.intra_cap = 1e15;
    ring.intra_links = links;
    const auto gathered = p.tensor(0);
    const auto sent = p.tensor(0, 100 * mb);
    p.compute(0, 1, {}, {gathered, sent});
    p.all_reduce(0, 1, 4, ring, 1, {gathered, p.tensor(1), p.tensor(2), p.tensor(3)});
    p.message(0, sent, 2, p.tensor(2, 100 * mb), 2);
    const auto program = p.take();
    const ReplayResult result = replay(program.input(), Executor::simgrid);
    REQUIRE(transfer_ms(result, 0, 1) == about(links == 1 ? 3 : 2));
    REQUIRE(transfer_ms(result, 0, 2) == about(links == 1 ? 2 : 3));
    const ReplayResult alone = replay(program.input(), Executor::analytic);
    REQUIRE(transfer_ms(alone, 0, 1) == about(3.0 / links));
    REQUIRE(transfer_ms(alone, 0, 2) == about(2));
  }
}

TEST_CASE("a slow mate slows the stripes that pass its links") {
  // 150 MB from rank 0 to rank 1 in 3 stripes, of which one goes to rank 3, whose links have half their rate:
  // 50/25 = 2 ms in both networks.
  HandMade p(4, bare_mesh(4));
  p.message(0, p.tensor(0, 150 * mb), 1, p.tensor(1, 150 * mb), 1, 3);
  Perturbation slow;
  slow.target = PerturbTarget::link;
  slow.index = 3;
  slow.link = "intra";
  slow.bandwidth = 0.5;
  p.costs().perturb.push_back(slow);
  const auto program = p.take();
  REQUIRE(transfer_ms(replay(program.input(), Executor::analytic), 0, 0) == about(2));
  REQUIRE(transfer_ms(replay(program.input(), Executor::simgrid), 0, 0) == about(2));
}

TEST_CASE("a slower link slows the flows over it") {
  // Rank 1's NIC at half its rate: the all-reduce of 2 ms takes 4 in both networks.
  HandMade p(2, bare_cluster(2));
  p.all_reduce(0, 1, 2, over_nics(bare_cluster(2), 2), 1);
  Perturbation slow;
  slow.target = PerturbTarget::link;
  slow.index = 1;
  slow.link = "nic";
  slow.bandwidth = 0.5;
  p.costs().perturb.push_back(slow);
  const auto program = p.take();
  REQUIRE(ms_of(replay(program.input(), Executor::analytic).step) == about(4));
  REQUIRE(ms_of(replay(program.input(), Executor::simgrid).step) == about(4));
}

}  // namespace
}  // namespace meshweave
