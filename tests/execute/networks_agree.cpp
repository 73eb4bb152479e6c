// The two networks: equal where no link is shared; the solver used for every flow or only where flows meet.
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/execute/child_process.h"
#include "sim/execute/flow_solver.h"
#include "sim/execute/replay_loop.h"
#include "sim/execute/simgrid_network.h"
#include "tests/support/random_program.h"

namespace meshweave {
namespace {

using testing::PlayableProgram;
using testing::random_program;

ReplayResult replay_with(const PlayableProgram& input, SolverUse use) {
  load_flow_solver();
  return replay_in_child(
      [&] {
        const Perturbations perturbations(input.perturb, input.costs.cluster, 1);
        const auto network = make_simgrid_network(input.costs.cluster, perturbations, use);
        const ReplayInput replay_input = input.input();
        return ReplayLoop(replay_input, perturbations, *network, nullptr).play();
      },
      nullptr);
}

// Relative to the end of the program, as rates are.
void require_equal(const ReplayResult& a, const ReplayResult& b, double relative) {
  const double tolerance = std::max(10.0, relative * static_cast<double>(a.end.count()));
  const auto near = [&](Picoseconds x, Picoseconds y) {
    return std::abs(static_cast<double>((x - y).count())) <= tolerance;
  };
  REQUIRE(near(a.begin, b.begin));
  REQUIRE(near(a.end, b.end));
  REQUIRE(a.events == b.events);
  for (std::size_t t = 0; t < a.timelines.size(); ++t) {
    for (std::size_t op = 0; op < a.timelines[t].slices.size(); ++op) {
      REQUIRE(near(a.timelines[t].slices[op].start, b.timelines[t].slices[op].start));
      REQUIRE(near(a.timelines[t].slices[op].transfer, b.timelines[t].slices[op].transfer));
      REQUIRE(near(a.timelines[t].slices[op].end, b.timelines[t].slices[op].end));
    }
  }
}

TEST_CASE("analytic and simgrid agree where no link is shared") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    const auto input = random_program(seed, {.most_events = 40, .one_communication_stream = true});
    const ReplayResult analytic = replay(input->input(), Executor::analytic);
    require_equal(analytic, replay(input->input(), Executor::simgrid), 1e-6);
    require_equal(analytic, replay_with(*input, SolverUse::always), 1e-6);
  }
}

TEST_CASE("flows that are alone need no solver") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    const auto input = random_program(seed, {.most_events = 40});
    require_equal(replay_with(*input, SolverUse::shared_links), replay_with(*input, SolverUse::always), 1e-9);
  }
}

TEST_CASE("sharing links never shortens a transfer") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    const auto input = random_program(seed, {.most_events = 40, .host = false});
    const ReplayResult alone = replay(input->input(), Executor::analytic);
    REQUIRE(replay(input->input(), Executor::simgrid).end.count() >= alone.end.count() - 1000);
  }
}

}  // namespace
}  // namespace meshweave
