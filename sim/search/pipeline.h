// The pipeline of one run: from a checked scenario to its report, in the order of the rooms.
//
//   scenario → plan → program → (verified) waits → liveness, communicators, classes → costs → replay → report
//
// Library code: prints nothing, touches no file, may run on several threads at once.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/execute/replay.h"
#include "sim/report/report.h"
#include "sim/scenario/reader.h"

namespace meshweave {

struct RunSettings {
  Executor executor = Executor::analytic;
  bool fold = true;                                // simgrid never folds
  const InterruptFlag* interrupt = nullptr;        // non-zero: throw Interrupted
  std::function<void(std::string_view)> on_phase;  // called as each phase begins; may be empty
  std::function<void(const Scenario&)>
      on_read;  // a scenario that was read, before its run, which this may refuse; may be empty
};

struct PhaseTime {
  std::string_view phase;
  double wall_s = 0;
};

// Everything that a run leaves behind. Its members refer to each other by index only, so it may be moved.
struct RunOutcome {
  Scenario scenario;
  Plan plan;
  Program program;
  std::vector<Waits> waits;        // by body
  std::vector<Liveness> liveness;  // by body
  Communicators communicators;
  RankClasses classes;
  Costs costs;
  ReplayResult replay;
  Report report;
  Executor executor = Executor::analytic;
  std::vector<PhaseTime> phases;

  RunView view() const { return {scenario, plan, program, communicators, classes, liveness, replay, executor}; }
  double wall_s() const;
};

// Throws InputError and IoError (a bad scenario) and Interrupted; a program that breaks the verifier's rules ends
// the process, as it is a bug.
// `prepare_run` stops before costs, replay and report, which another executor does without.
RunOutcome prepare_run(Scenario scenario, const RunSettings& settings);
RunOutcome run_scenario(Scenario scenario, const RunSettings& settings);
RunOutcome read_and_run(const std::string& path, const std::vector<Override>& overrides, const RunSettings& settings);
// The same from the file's text.
RunOutcome parse_and_run(std::string_view text, const std::string& path, const std::vector<Override>& overrides,
                         const RunSettings& settings);

// The program of a scenario alone, verified.
Program lower_verified(const Scenario& scenario, const InterruptFlag* interrupt);

// The outcome's program replayed as if nothing were perturbed: the step time without perturbations, in seconds.
double unperturbed_step_s(const RunOutcome& outcome, const RunSettings& settings);
// The same without one perturbation each, as Scenario::perturb.
std::vector<double> steps_without_s(const RunOutcome& outcome, const RunSettings& settings);

}  // namespace meshweave
