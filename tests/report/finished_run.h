// A scenario run to its end inside a test: everything that a report reads.
#pragma once

#include "sim/lower/lower.h"
#include "sim/report/report.h"
#include "tests/support/dense_scenario.h"

namespace meshweave::testing {

struct FinishedRun {
  Scenario scenario;
  Plan plan;
  Program program;
  Communicators communicators;
  std::vector<Waits> waits;
  std::vector<Liveness> liveness;
  RankClasses classes;
  Costs costs;
  ReplayResult replayed;
  Report report;

  explicit FinishedRun(Scenario checked, bool fold = false)
      : scenario(std::move(checked)), plan(make_plan(scenario)), program(lower(scenario, plan)),
        communicators(make_communicators(program)) {
    for (const Body& body : program.bodies) {
      waits.push_back(derive_waits(program, body));
      liveness.push_back(derive_liveness(program, body, waits.back()));
    }
    const auto placement = [&](std::span<const int> ranks) { return placement_signature(scenario.cluster, ranks); };
    const std::vector<std::uint64_t> alike(static_cast<std::size_t>(program.ranks()));
    classes = fold ? fold_ranks(program, alike, placement) : all_ranks(program);
    costs = price(program, communicators, scenario);
    ReplayInput input;
    input.program = &program;
    input.communicators = &communicators;
    input.waits = &waits;
    input.costs = &costs;
    input.classes = &classes;
    input.perturb = &scenario.perturb;
    replayed = replay(input, Executor::analytic);
    report = make_report(view());
  }
  FinishedRun(const FinishedRun&) = delete;

  RunView view() const {
    return {scenario, plan, program, communicators, classes, liveness, replayed, Executor::analytic};
  }
};

// Fixed durations of one second for forward, backward-data and backward-weight; communication takes no time.
inline Scenario one_second_scenario(int stages, int chunks, int micro_batches) {
  DenseOptions options;
  options.pp = stages;
  options.vpp = chunks;
  options.micro_batches = micro_batches;
  Scenario s = dense_scenario(options);
  s.cost = {CostKind::fixed, 1, 1, 1};
  s.cluster.node.device.name = "test device";
  s.cluster.node.device.peak_flops_per_s = 1e12;
  s.cluster.node.device.memory_bytes = 1e9;
  return s;
}

// Two nodes of the catalog's H100s with a small model on them; `more` is added to the scenario's text.
Scenario small_h100_scenario(const std::string& layout, const std::string& more = "");

}  // namespace meshweave::testing
