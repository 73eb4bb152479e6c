// Folded ranks: the kept ranks have the slices that they have when every rank is played.
#include <catch2/catch.hpp>

#include "sim/execute/perturbations.h"
#include "tests/support/random_program.h"

namespace meshweave {
namespace {

using testing::PlayableProgram;
using testing::random_program;

RankClasses fold(const PlayableProgram& input) {
  const Cluster& cluster = input.costs.cluster;
  return fold_ranks(input.program, perturbation_keys(input.perturb, cluster),
                    [&](std::span<const int> ranks) { return placement_signature(cluster, ranks); });
}

void require_same(const Slice& a, const Slice& b) {
  REQUIRE(a.start == b.start);
  REQUIRE(a.transfer == b.transfer);
  REQUIRE(a.end == b.end);
  REQUIRE(a.cause == b.cause);
  REQUIRE(a.cause_op == b.cause_op);
  REQUIRE(a.cause_previous_step == b.cause_previous_step);
  REQUIRE(a.peer == b.peer);
}

TEST_CASE("folding changes no slice of the kept ranks") {
  int folded_programs = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    const auto input = random_program(seed, {.most_events = 40});
    if (seed % 3 == 0) input->costs.slowdown = 1.3;
    const ReplayResult all = replay(input->input(), Executor::analytic);
    const RankClasses classes = fold(*input);
    ReplayInput folded_input = input->input();
    folded_input.classes = &classes;
    const ReplayResult folded = replay(folded_input, Executor::analytic);
    folded_programs += classes.count() < input->program.ranks() ? 1 : 0;
    REQUIRE(folded.begin == all.begin);
    REQUIRE(folded.end == all.end);
    REQUIRE(folded.timelines.size() == static_cast<std::size_t>(classes.count()));
    for (const RankTimeline& timeline : folded.timelines) {
      const RankTimeline& same = all.timelines[static_cast<std::size_t>(timeline.rank)];
      for (std::size_t op = 0; op < timeline.slices.size(); ++op) {
        INFO("rank " << timeline.rank << " op " << op);
        require_same(timeline.slices[op], same.slices[op]);
      }
    }
  }
  REQUIRE(folded_programs > 100);
}

TEST_CASE("perturbed ranks differ from all others") {
  const Cluster cluster = testing::plain_cluster(2);
  Perturbation rank;
  rank.index = 3;
  rank.compute_time = 1.5;
  const auto one_slow = perturbation_keys({rank}, cluster);
  REQUIRE(one_slow[3] != one_slow[0]);
  REQUIRE(one_slow[4] == one_slow[0]);
  Perturbation node;
  node.target = PerturbTarget::node;
  node.index = 1;
  node.compute_time = 1.5;
  const auto slow_node = perturbation_keys({node}, cluster);
  REQUIRE(slow_node[8] != slow_node[15]);
  REQUIRE(slow_node[8] != slow_node[7]);
  REQUIRE(slow_node[6] == slow_node[7]);
  Perturbation jitter;
  jitter.target = PerturbTarget::jitter;
  jitter.sigma = 0.1;
  const auto jittered = perturbation_keys({jitter}, cluster);
  for (std::size_t a = 0; a < jittered.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) REQUIRE(jittered[a] != jittered[b]);
  }
}

}  // namespace
}  // namespace meshweave
