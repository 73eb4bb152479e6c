#include "sim/program/communicators.h"

#include <catch2/catch.hpp>

namespace meshweave {
namespace {

Program program_on(const ProcessGrid& grid, int ranks, std::vector<Group> groups) {
  Program program;
  program.grids.push_back(grid);
  program.groups = std::move(groups);
  program.body_of_rank.assign(static_cast<std::size_t>(ranks), 0);
  return program;
}

std::vector<int> members(const Communicators::Of& of, std::uint32_t instance) {
  return {of.of(instance).begin(), of.of(instance).end()};
}

TEST_CASE("the instances of a group are the pattern's member lists, numbered by their first rank") {
  // tp 2 (stride 1), dp 2 (stride 2), pp 3 (stride 4), first rank 4: rank = 4 + tp + 2·dp + 4·pp.
  const ProcessGrid grid(Degrees{.tp = 2, .dp = 2, .pp = 3}, "tp-dp-pp", 4);
  const Program program = program_on(grid, 18,
                                     {{"tp", 0, {{Axis::tp, 1, 2}}},
                                      {"dp", 0, {{Axis::dp, 1, 2}}},
                                      {"tp+dp", 0, {{Axis::dp, 1, 2}, {Axis::tp, 1, 2}}},
                                      {"embedding", 0, {{Axis::pp, 2, 2}}}});
  const Communicators communicators = make_communicators(program);

  const Communicators::Of& tp = communicators.by_group[0];
  REQUIRE(tp.instances() == 6);
  CHECK(members(tp, 0) == std::vector<int>{4, 5});
  CHECK(members(tp, 5) == std::vector<int>{14, 15});
  CHECK(tp.instance_of[3] == UINT32_MAX);   // before the grid
  CHECK(tp.instance_of[16] == UINT32_MAX);  // behind it
  CHECK(tp.instance_of[14] == 5);

  const Communicators::Of& dp = communicators.by_group[1];
  REQUIRE(dp.instances() == 6);
  CHECK(members(dp, 1) == std::vector<int>{5, 7});

  // The first pattern varies fastest: dp before tp.
  const Communicators::Of& both = communicators.by_group[2];
  REQUIRE(both.instances() == 3);
  CHECK(members(both, 0) == std::vector<int>{4, 6, 5, 7});

  // First and last stage; the middle stage has no instance.
  const Communicators::Of& embedding = communicators.by_group[3];
  REQUIRE(embedding.instances() == 4);
  CHECK(members(embedding, 0) == std::vector<int>{4, 12});
  CHECK(embedding.instance_of[8] == UINT32_MAX);
  CHECK(embedding.instance_of[15] == 3);
}

TEST_CASE("an instance lists what ProcessGrid::group gives each of its members") {
  const ProcessGrid grid(Degrees{.tp = 2, .dp = 8, .pp = 2}, "tp-dp-pp", 0);
  const std::vector<std::vector<AxisPattern>> patterns = {{{Axis::tp, 1, 2}},
                                                          {{Axis::dp, 1, 4}},
                                                          {{Axis::dp, 4, 2}},
                                                          {{Axis::tp, 1, 2}, {Axis::dp, 1, 8}},
                                                          {{Axis::pp, 1, 2}, {Axis::dp, 2, 2}}};
  for (const std::vector<AxisPattern>& pattern : patterns) {
    const Communicators communicators = make_communicators(program_on(grid, grid.size(), {{"g", 0, pattern}}));
    for (int rank = 0; rank < grid.size(); ++rank) {
      const Communicators::Of& of = communicators.by_group[0];
      REQUIRE(members(of, of.instance_of[static_cast<std::size_t>(rank)]) == grid.group(rank, pattern));
    }
  }
}

}  // namespace
}  // namespace meshweave
