#include "sim/search/pipeline.h"

#include <chrono>

#include "sim/base/error.h"
#include "sim/execute/perturbations.h"
#include "sim/lower/lower.h"
#include "sim/program/verify.h"

namespace meshweave {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Runs the phases of an outcome one after another: names and times them, and stops between them when interrupted.
class Phases {
 public:
  Phases(const RunSettings& settings, std::vector<PhaseTime>& times) : settings_(settings), times_(times) {}

  template <class Work>
  void run(std::string_view name, const Work& work) {
    check_interrupt(settings_.interrupt);
    if (settings_.on_phase) settings_.on_phase(name);
    const Clock::time_point start = Clock::now();
    work();
    times_.push_back({name, seconds_since(start)});
  }

 private:
  const RunSettings& settings_;
  std::vector<PhaseTime>& times_;
};

// Returns the waits of each body.
std::vector<Waits> require_verified(const Program& program, const InterruptFlag* interrupt) {
  std::vector<Waits> waits;
  std::string text;
  for (const Violation& violation : verify(program, 20, &waits, interrupt)) text += "\n  " + violation.text;
  if (!text.empty()) bug("the lowered program breaks its own rules:" + text);
  return waits;
}

RankClasses classes_of(const Scenario& scenario, const Program& program, const RunSettings& settings) {
  if (!settings.fold || settings.executor == Executor::simgrid) return all_ranks(program);
  return fold_ranks(program, perturbation_keys(scenario.perturb, scenario.cluster),
                    [&](std::span<const int> ranks) { return placement_signature(scenario.cluster, ranks); });
}

ReplayInput input_of(const RunOutcome& run, const std::vector<Perturbation>* perturb) {
  ReplayInput input;
  input.program = &run.program;
  input.communicators = &run.communicators;
  input.waits = &run.waits;
  input.costs = &run.costs;
  input.classes = &run.classes;
  input.perturb = perturb;
  input.seed = run.scenario.seed;
  return input;
}

// The step time of the outcome's program under other perturbations. Classes stay: they only tell more ranks apart.
double step_with_s(const RunOutcome& run, const std::vector<Perturbation>& perturb, const RunSettings& settings) {
  return seconds_from_picoseconds(replay(input_of(run, &perturb), settings.executor, settings.interrupt).step);
}

}  // namespace

double RunOutcome::wall_s() const {
  double sum = 0;
  for (const PhaseTime& phase : phases) sum += phase.wall_s;
  return sum;
}

Program lower_verified(const Scenario& scenario, const InterruptFlag* interrupt) {
  require_one_module(scenario);
  Program program = lower(scenario, make_plan(scenario), interrupt);
  require_verified(program, interrupt);
  return program;
}

RunOutcome prepare_run(Scenario scenario, const RunSettings& settings) {
  require_one_module(scenario);
  RunOutcome run;
  run.scenario = std::move(scenario);
  run.executor = settings.executor;
  Phases phases(settings, run.phases);
  phases.run("lower", [&] {
    run.plan = make_plan(run.scenario);
    run.program = lower(run.scenario, run.plan, settings.interrupt);
  });
  phases.run("verify", [&] { run.waits = require_verified(run.program, settings.interrupt); });
  phases.run("derive", [&] {
    for (std::size_t b = 0; b < run.program.bodies.size(); ++b) {
      check_interrupt(settings.interrupt);
      run.liveness.push_back(derive_liveness(run.program, run.program.bodies[b], run.waits[b]));
    }
  });
  phases.run("fold", [&] {
    run.communicators = make_communicators(run.program);
    run.classes = classes_of(run.scenario, run.program, settings);
  });
  return run;
}

RunOutcome run_scenario(Scenario scenario, const RunSettings& settings) {
  RunOutcome run = prepare_run(std::move(scenario), settings);
  Phases phases(settings, run.phases);
  phases.run("price", [&] { run.costs = price(run.program, run.communicators, run.scenario); });
  phases.run("replay",
             [&] { run.replay = replay(input_of(run, &run.scenario.perturb), settings.executor, settings.interrupt); });
  phases.run("report", [&] { run.report = make_report(run.view()); });
  return run;
}

namespace {

// `read` returns the scenario.
template <class Read>
RunOutcome run_after(const Read& read, const RunSettings& settings) {
  std::vector<PhaseTime> reading;
  Scenario scenario;
  Phases(settings, reading).run("read", [&] { scenario = read(); });
  if (settings.on_read) settings.on_read(scenario);
  RunOutcome run = run_scenario(std::move(scenario), settings);
  run.phases.insert(run.phases.begin(), reading.front());
  return run;
}

}  // namespace

RunOutcome read_and_run(const std::string& path, const std::vector<Override>& overrides, const RunSettings& settings) {
  return run_after([&] { return read_scenario(path, overrides); }, settings);
}

RunOutcome parse_and_run(std::string_view text, const std::string& path, const std::vector<Override>& overrides,
                         const RunSettings& settings) {
  return run_after([&] { return parse_scenario(text, path, overrides); }, settings);
}

double unperturbed_step_s(const RunOutcome& outcome, const RunSettings& settings) {
  return step_with_s(outcome, {}, settings);
}

std::vector<double> steps_without_s(const RunOutcome& outcome, const RunSettings& settings) {
  const std::vector<Perturbation>& all = outcome.scenario.perturb;
  std::vector<double> steps;
  for (std::size_t p = 0; p < all.size(); ++p) {
    std::vector<Perturbation> others = all;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(p));
    steps.push_back(step_with_s(outcome, others, settings));
  }
  return steps;
}

}  // namespace meshweave
