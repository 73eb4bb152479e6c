// Where the numbers of a report come from: for each number its rule and the parts that add up to it, the ops that
// cost most with the constants behind them and their sources, and who delays the step.
//
//   tflops_per_gpu  412.3 TFLOP/s = model FLOPs of a step / step time / ranks
//       projections and MLPs     371.2
//       attention                 30.8
//       logits                    10.3
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/report/report.h"

namespace meshweave {

struct ExplainedPart {
  std::string name;
  double value = 0;  // in the unit of the number
};

struct ExplainedNumber {
  std::string key;  // as --json of `run` prints it
  double value = 0;
  std::string unit;                  // "s", "bytes", "1", …
  std::string rule;                  // how the parts come about
  std::vector<ExplainedPart> parts;  // their sum is `value`
  std::string source = {};           // of the constants in the rule; empty for none
};

// The ops of one kind, label and phase, among those that take most time.
struct ExplainedOp {
  std::string label;
  std::string kind;
  std::string phase;
  std::int64_t executions = 0;
  double seconds = 0;  // mean over ranks: on the compute stream, or transfer time of a communication
  bool communication = false;
  std::string cost;    // what the duration of one execution was computed from
  std::string source;  // of the constants
};

// A perturbation of the scenario: how much later the step ends for it, the others being as they are, and how much of
// the critical path lies on what it slows.
struct ExplainedDelay {
  std::string what;  // "rank 3: compute × 1.5"
  double delay_s = 0;
  std::optional<double> path_s;  // none for jitter, which touches all ranks
};

struct Explanation {
  std::string title;
  std::vector<ExplainedNumber> numbers;
  std::vector<ExplainedOp> ops;           // those of most compute time, then those of most transfer time
  std::vector<ExplainedPart> path;        // the critical path by stage, in seconds
  std::vector<ExplainedPart> path_kinds;  // and by what it consists of
  std::string slowest;                    // one sentence on who delays the step
  // Of scenarios that are perturbed:
  double unperturbed_step_s = 0;
  double delay_s = 0;
  std::vector<ExplainedDelay> delays;
};

Explanation explain_report(const RunView& run, const Report& report);
// Adds who delays the step, and by how much against the step without perturbations. `step_without_s` are the step
// times without one perturbation each, as Scenario::perturb.
void explain_delay(Explanation& explanation, const RunView& run, const Report& report, double unperturbed_step_s,
                   const std::vector<double>& step_without_s);

std::string explanation_text(const Explanation& explanation);
std::string explanation_json(const Explanation& explanation);

}  // namespace meshweave
