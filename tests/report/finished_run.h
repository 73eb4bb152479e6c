// A scenario run to its end inside a test: everything that a report reads.
#pragma once

#include "sim/execute/perturbations.h"
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
  Executor executor;
  ReplayResult replayed;
  Report report;

  explicit FinishedRun(Scenario checked, bool fold = false, Executor played_by = Executor::analytic)
      : scenario(std::move(checked)),
        plan(make_plan(scenario)),
        program(lower(scenario, plan)),
        communicators(make_communicators(program)),
        executor(played_by) {
    for (const Body& body : program.bodies) {
      waits.push_back(derive_waits(program, body));
      liveness.push_back(derive_liveness(program, body, waits.back()));
    }
    const auto placement = [&](std::span<const int> ranks) { return placement_signature(scenario.cluster, ranks); };
    const std::vector<std::uint64_t> keys = perturbation_keys(scenario.perturb, scenario.cluster);
    classes = fold ? fold_ranks(program, keys, placement) : all_ranks(program);
    costs = price(program, communicators, scenario);
    ReplayInput input;
    input.program = &program;
    input.communicators = &communicators;
    input.waits = &waits;
    input.costs = &costs;
    input.classes = &classes;
    input.perturb = &scenario.perturb;
    input.seed = scenario.seed;
    replayed = replay(input, executor);
    report = make_report(view());
  }
  FinishedRun(const FinishedRun&) = delete;

  RunView view() const { return {scenario, plan, program, communicators, classes, liveness, replayed, executor}; }
};

// Forward, backward-data and backward-weight of a rank take `seconds` each; communication takes no time.
inline Scenario fixed_scenario(const DenseOptions& options, double seconds = 1) {
  Scenario s = dense_scenario(options);
  s.cost = {CostKind::fixed, seconds, seconds, seconds};
  s.cluster.node.device.name = "test device";
  s.cluster.node.device.peak_flops_per_s = 1e12;
  s.cluster.node.device.memory_bytes = 1e9;
  return s;
}

inline DenseOptions pipeline(int stages, int chunks, int micro_batches) {
  DenseOptions options;
  options.pp = stages;
  options.vpp = chunks;
  options.micro_batches = micro_batches;
  return options;
}

inline Scenario one_second_scenario(int stages, int chunks, int micro_batches) {
  return fixed_scenario(pipeline(stages, chunks, micro_batches));
}

// Two nodes of the catalog's H100s with a small model on them; `more` is added to the scenario's text.
Scenario small_h100_scenario(const std::string& layout, const std::string& more = "");

}  // namespace meshweave::testing
