// Slowdown, host lane, causes and perturbations on programs small enough to be played by hand. Times in ms.
#include <catch2/catch.hpp>

#include "sim/base/error.h"
#include "tests/execute/hand_made.h"

namespace meshweave {
namespace {

using testing::bare_cluster;
using testing::from_ms;
using testing::HandMade;
using testing::ms_of;
using testing::over_nics;

const Slice& slice_of(const ReplayResult& result, int rank, std::size_t op) {
  return result.timelines[static_cast<std::size_t>(rank)].slices[op];
}

TEST_CASE("compute is slower while a communication of the rank is resident") {
  // Slowdown 1.25. Rank 0: all-reduce (2 ms), then 10 ms of compute beside it; rank 1: 3 ms of compute, then
  // the all-reduce.
  //   step 1  rank 1 arrives at 3, transfer 3 to 5. Rank 0 computes at 1/1.25 until 5 (4 of 10 done), ends
  //   at 11.
  //           Rank 1 goes on to its compute of step 2 at 3: 1.6 done at 5, 1.4 left, ends at 6.4, launches.
  //   step 2  rank 0 launches at 11, transfer 11 to 13; 1.6 of 10 done at 13, ends at 21.4.
  HandMade p(2, bare_cluster(2));
  p.compute(1, 3);
  p.all_reduce(0, 1, 2, over_nics(bare_cluster(2), 2), 1);
  p.compute(0, 10);
  p.costs().costs.slowdown = 1.25;
  const auto program = p.take();
  for (const Executor executor : {Executor::analytic, Executor::simgrid}) {
    const ReplayResult result = replay(program.input(), executor);
    REQUIRE(result.begin == from_ms(11));
    REQUIRE(result.end == from_ms(21.4));
    REQUIRE(slice_of(result, 1, 0).end == from_ms(6.4));
    REQUIRE(slice_of(result, 0, 0).transfer == from_ms(11));
    REQUIRE(slice_of(result, 0, 0).end == from_ms(13));
    REQUIRE(slice_of(result, 0, 1).end == from_ms(21.4));
  }
}

TEST_CASE("a communication is resident while it waits for its peers") {
  // Slowdown 1.25, all-reduce 2 ms. Rank 0 computes 10 ms beside it, rank 1 15 ms before it.
  //   step 1  rank 0 is slowed throughout: ends at 12.5. Transfer 15 to 17.
  //   step 2  rank 0 computes from 12.5; its next all-reduce follows the first at 17 without a gap: ends
  //   at 25.
  //           Rank 1 computes from 15, slowed until 17: 1.6 done, ends at 30.4. Transfer 30.4 to 32.4.
  HandMade p(2, bare_cluster(2));
  p.compute(1, 15);
  p.all_reduce(0, 1, 2, over_nics(bare_cluster(2), 2), 1);
  p.compute(0, 10);
  p.costs().costs.slowdown = 1.25;
  const auto program = p.take();
  const ReplayResult result = replay(program.input(), Executor::analytic);
  REQUIRE(result.begin == from_ms(17));
  REQUIRE(slice_of(result, 0, 1).start == from_ms(12.5));
  REQUIRE(slice_of(result, 0, 1).end == from_ms(25));
  REQUIRE(slice_of(result, 0, 0).start == from_ms(17));
  REQUIRE(slice_of(result, 0, 0).transfer == from_ms(30.4));
  REQUIRE(slice_of(result, 0, 0).peer == 1);
  REQUIRE(slice_of(result, 1, 1).peer == -1);
  REQUIRE(result.end == from_ms(32.4));
}

TEST_CASE("a host that issues slowly leaves the device idle") {
  // Three kernels of 1 ms, issued every 5 ms: launched at 0, 5, 10 and 15, 20, 25; steps end at 11 and 26.
  HandMade p(1, bare_cluster(1));
  for (int i = 0; i < 3; ++i) p.compute(0, 1);
  p.costs().costs.host_issue = from_ms(5);
  const auto program = p.take();
  const ReplayResult result = replay(program.input(), Executor::analytic);
  REQUIRE(result.begin == from_ms(11));
  REQUIRE(result.step == from_ms(15));
  REQUIRE(slice_of(result, 0, 1).start == from_ms(20));
  REQUIRE(slice_of(result, 0, 1).cause == CauseKind::host);
  REQUIRE(slice_of(result, 0, 1).cause_op == no_op);
}

TEST_CASE("a sync op holds the host until it ends") {
  // Issue 1 ms. Op 0 (20 ms) is a sync op: op 1 is issued at 20, op 2 at 21 though op 1 ends at 20.5.
  // Step 2: op 0 is issued at 22 and ends at 42, op 1 at 42, op 2 launches at 43.
  HandMade p(1, bare_cluster(1));
  p.compute(0, 20, {}, {}, true);
  p.compute(0, 0.5);
  p.compute(0, 0.5);
  p.costs().costs.host_issue = from_ms(1);
  const auto program = p.take();
  const ReplayResult result = replay(program.input(), Executor::analytic);
  REQUIRE(slice_of(result, 0, 0).start == from_ms(22));
  REQUIRE(slice_of(result, 0, 1).start == from_ms(42));
  REQUIRE(slice_of(result, 0, 2).start == from_ms(43));
  REQUIRE(slice_of(result, 0, 2).cause == CauseKind::host);
  REQUIRE(slice_of(result, 0, 2).cause_op == 0);
  REQUIRE_FALSE(slice_of(result, 0, 2).cause_previous_step);
  REQUIRE(slice_of(result, 0, 0).cause_op == 0);
  REQUIRE(slice_of(result, 0, 0).cause_previous_step);
}

TEST_CASE("causes name the stream, the wait, and the peer that came last") {
  // Rank 0: compute 1 writes x, all-reduce of x (rank 1 comes at 4), compute that reads x.
  HandMade p(2, bare_cluster(2));
  const auto x = p.tensor(0);
  const auto y = p.tensor(1);
  p.compute(0, 1, {}, {x});
  p.compute(1, 4, {}, {y});
  p.all_reduce(0, 1, 2, over_nics(bare_cluster(2), 2), 1, {x, y});
  p.compute(0, 1, {x}, {});
  const auto program = p.take();
  const ReplayResult result = replay(program.input(), Executor::analytic);
  // Step 1 ends at 7 (0–1, transfer 4–6, 6–7). Step 2: rank 0 0-op at 7, rank 1 writes y from 6 to 10.
  REQUIRE(slice_of(result, 0, 0).cause == CauseKind::stream);
  REQUIRE(slice_of(result, 0, 0).cause_op == 2);
  REQUIRE(slice_of(result, 0, 0).cause_previous_step);
  REQUIRE(slice_of(result, 0, 1).cause == CauseKind::wait);
  REQUIRE(slice_of(result, 0, 1).cause_op == 0);
  REQUIRE(slice_of(result, 0, 1).transfer == from_ms(10));
  REQUIRE(slice_of(result, 0, 1).peer == 1);
  REQUIRE(slice_of(result, 0, 2).cause == CauseKind::wait);
  REQUIRE(slice_of(result, 0, 2).cause_op == 1);
}

TEST_CASE("slow ranks and nodes multiply their compute") {
  // Two ranks of one node, 2 ms each: rank 1 by 1.5, the node by 2: 4 and 6 ms.
  Cluster cluster = bare_cluster(1);
  cluster.node.gpus = 2;
  HandMade p(2, cluster);
  p.compute(0, 2);
  p.compute(1, 2);
  Perturbation rank;
  rank.index = 1;
  rank.compute_time = 1.5;
  Perturbation node;
  node.target = PerturbTarget::node;
  node.compute_time = 2;
  p.costs().perturb = {rank, node};
  const auto program = p.take();
  const ReplayResult result = replay(program.input(), Executor::analytic);
  REQUIRE(slice_of(result, 0, 0).end - slice_of(result, 0, 0).start == from_ms(4));
  REQUIRE(slice_of(result, 1, 0).end - slice_of(result, 1, 0).start == from_ms(6));
}

TEST_CASE("jitter keeps the mean and follows the seed") {
  // 2,000 kernels of 1 ms with σ = 0.2: the mean of 2,000 log-normal factors is within 4·0.2/√2000 = 1.8 %
  // of 1.
  HandMade p(1, bare_cluster(1));
  for (int i = 0; i < 2000; ++i) p.compute(0, 1);
  Perturbation jitter;
  jitter.target = PerturbTarget::jitter;
  jitter.sigma = 0.2;
  p.costs().perturb = {jitter};
  const auto program = p.take();
  ReplayInput input = program.input();
  const Picoseconds first = replay(input, Executor::analytic).step;
  REQUIRE(ms_of(first) == Approx(2000).epsilon(0.018));
  REQUIRE(ms_of(first) != Approx(2000).epsilon(1e-6));
  REQUIRE(replay(input, Executor::analytic).step == first);
  input.seed = 2;
  REQUIRE(replay(input, Executor::analytic).step != first);
}

TEST_CASE("a replay stops when it is interrupted") {
  HandMade p(1, bare_cluster(1));
  for (int i = 0; i < 5000; ++i) p.compute(0, 1);
  const auto program = p.take();
  const InterruptFlag interrupted{1};
  REQUIRE_THROWS_AS(replay(program.input(), Executor::analytic, &interrupted), Interrupted);
  REQUIRE_THROWS_AS(replay(program.input(), Executor::simgrid, &interrupted), Interrupted);
}

}  // namespace
}  // namespace meshweave
