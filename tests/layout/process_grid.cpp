#include "sim/layout/process_grid.h"

#include <catch2/catch.hpp>

using namespace meshweave;

namespace {
//                                    tp cp ep dp pp
constexpr Degrees degrees{.tp = 2, .dp = 2, .pp = 2};
Coordinates at(int tp, int dp, int pp) {
  Coordinates c{};
  c[static_cast<std::size_t>(Axis::tp)] = tp;
  c[static_cast<std::size_t>(Axis::dp)] = dp;
  c[static_cast<std::size_t>(Axis::pp)] = pp;
  return c;
}

}  // namespace

TEST_CASE("the first axis of the order varies fastest") {
  const ProcessGrid grid(degrees, "tp-cp-ep-dp-pp", 0);
  CHECK(grid.size() == 8);
  // 5 = 1·1 (tp) + 0·2 (dp) + 1·4 (pp)
  CHECK(grid.coordinates(5) == at(1, 0, 1));
  CHECK(grid.rank(at(1, 0, 1)) == 5);
  CHECK(grid.label(5) == "tp1 dp0 pp1");
  const ProcessGrid inner(degrees, "tp-pp-dp", 8);
  // With pp inside dp and an offset of 8: 13 − 8 = 5 = 1 (tp) + 0·2 (pp) + 1·4 (dp)
  CHECK(inner.coordinates(13) == at(1, 1, 0));
}

TEST_CASE("coordinates and rank are inverse") {
  const ProcessGrid grid(Degrees{.tp = 2, .dp = 3, .pp = 4}, "pp-dp-tp", 5);
  for (int rank = 5; rank < 5 + 24; ++rank) CHECK(grid.rank(grid.coordinates(rank)) == rank);
}

TEST_CASE("groups follow their patterns") {
  const ProcessGrid grid(degrees, "tp-dp-pp", 0);
  CHECK(grid.group(5, {{Axis::tp, 1, 2}}) == std::vector<int>{4, 5});
  CHECK(grid.group(5, {{Axis::dp, 1, 2}}) == std::vector<int>{5, 7});
  CHECK(grid.group(5, {{Axis::tp, 1, 2}, {Axis::pp, 1, 2}}) == std::vector<int>{0, 1, 4, 5});
}

TEST_CASE("a pattern of parts: optimizer instances, and first with last stage") {
  const ProcessGrid grid(Degrees{.dp = 4, .pp = 3}, "dp-pp", 0);
  // Two instances of two contiguous replicas, and the partners across instances.
  CHECK(grid.group(3, {{Axis::dp, 1, 2}}) == std::vector<int>{2, 3});
  CHECK(grid.group(3, {{Axis::dp, 2, 2}}) == std::vector<int>{1, 3});
  // Stage 0 and stage 2 of three share a tied embedding; stage 1 is in no such group.
  CHECK(grid.group(9, {{Axis::pp, 2, 2}}) == std::vector<int>{1, 9});
  CHECK(grid.group(5, {{Axis::pp, 2, 2}}).empty());
}
