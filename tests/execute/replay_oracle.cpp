// The replay against the longest path through all nodes of the doubled program, on random programs.
#include <catch2/catch.hpp>

#include "tests/execute/longest_path.h"

namespace meshweave {
namespace {

using testing::LongestPath;
using testing::PlayableProgram;
using testing::random_program;

// The end of a step over all ranks.
std::int64_t step_end(LongestPath& oracle, const PlayableProgram& input, int step) {
  std::int64_t last = 0;
  for (int rank = 0; rank < input.program.ranks(); ++rank) {
    const Body& body = input.program.bodies[input.program.body_of_rank[static_cast<std::size_t>(rank)]];
    for (std::size_t op = 0; op < body.ops.size(); ++op) last = std::max(last, oracle.end(rank, step, op));
  }
  return last;
}

void compare(const PlayableProgram& input, const ReplayResult& result) {
  LongestPath oracle(input);
  REQUIRE(result.begin.count() == step_end(oracle, input, 0));
  REQUIRE(result.end.count() == step_end(oracle, input, 1));
  REQUIRE(result.step == result.end - result.begin);
  for (const RankTimeline& timeline : result.timelines) {
    for (std::size_t op = 0; op < timeline.slices.size(); ++op) {
      const Slice& slice = timeline.slices[op];
      REQUIRE(slice.start.count() == oracle.launch(timeline.rank, 1, op));
      REQUIRE(slice.end.count() == oracle.end(timeline.rank, 1, op));
      REQUIRE(slice.start <= slice.transfer);
      REQUIRE(slice.transfer <= slice.end);
    }
  }
}

TEST_CASE("the replay is the longest path through the doubled program") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    const auto input = random_program(seed, {.most_events = 40, .host = seed % 2 == 0});
    compare(*input, replay(input->input(), Executor::analytic));
  }
}

TEST_CASE("the replay is the longest path where communication slows compute down") {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    const auto input = random_program(seed, {.most_events = 30, .host = seed % 2 == 0});
    // No short decimal: durations that end just between two picoseconds would be rounded by the noise of the sums.
    input->costs.slowdown = seed % 3 == 0 ? 2.0 : 1.1517346;
    compare(*input, replay(input->input(), Executor::analytic));
  }
}

TEST_CASE("every cause is the end of the op that it names") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    const auto input = random_program(seed, {.most_events = 40});
    const ReplayResult result = replay(input->input(), Executor::analytic);
    LongestPath oracle(*input);
    for (const RankTimeline& timeline : result.timelines) {
      for (const Slice& slice : timeline.slices) {
        REQUIRE(slice.cause != CauseKind::none);
        if (slice.cause == CauseKind::host) continue;
        REQUIRE(oracle.end(timeline.rank, slice.cause_previous_step ? 0 : 1, slice.cause_op) == slice.start.count());
      }
    }
  }
}

TEST_CASE("the same inputs give the same result") {
  const auto input = random_program(7, {.most_events = 60});
  const ReplayResult a = replay(input->input(), Executor::analytic);
  const ReplayResult b = replay(input->input(), Executor::analytic);
  REQUIRE(a.step == b.step);
  REQUIRE(a.events == b.events);
}

}  // namespace
}  // namespace meshweave
