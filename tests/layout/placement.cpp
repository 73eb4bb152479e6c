#include "sim/layout/placement.h"

#include <catch2/catch.hpp>

using namespace meshweave;

TEST_CASE("Interleaved stages go round the pipeline ranks") {
  const Placement placement = Placement::interleaved(3, 2);
  CHECK(placement.stages() == 6);
  CHECK(placement.ranks() == 3);
  CHECK(placement.chunks() == 2);
  CHECK(placement.of(4) == StagePlace{1, 1});
  CHECK(placement.stage(2, 1) == 5);
  // From rank 2 the next stage is on rank 0, which is one further, cyclically.
  for (int stage = 0; stage < 5; ++stage) CHECK(placement.step_to_next(stage) == 1);
}

TEST_CASE("A V-shaped placement is data") {
  const Placement placement({{0, 0}, {1, 0}, {1, 1}, {0, 1}});
  CHECK(placement.stage(1, 1) == 2);
  CHECK(placement.stage(0, 1) == 3);
  CHECK(placement.step_to_next(0) == 1);
  CHECK(placement.step_to_next(1) == 2);  // on the same rank: once round
}

TEST_CASE("A pipeline of one rank") {
  const Placement placement;
  CHECK(placement.stages() == 1);
  CHECK(placement.stage(0, 0) == 0);
}
