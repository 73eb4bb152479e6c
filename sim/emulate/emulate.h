// The emulator: runs a lowered program with real numbers and compares what it trains with the reference.
//
// Error of a tensor a against the reference's b: max|a − b| / max(max|b|, 1e-3·G), where G is the largest
// element of any gradient of the model in any step, since some gradients are zero in truth. Updates of
// parameters are compared instead of parameters, as a small learning rate hides errors, and in the scale of
// the gradient: the difference of an update times (√v̂ + ε)/rate, by which Adam makes it of the gradient.
// Gradients are compared behind the clip, which hides their scale; the global norm before it shows that. What
// is never made is infinitely wrong: an element that no rank's optimizer updates, a norm that a rank lacks.
// Updates are judged in double only, and where the learning rate moves parameters by more than their rounding.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/emulate/reference.h"
#include "sim/execute/interpreter.h"
#include "sim/program/communicators.h"
#include "sim/scenario/scenario.h"

namespace meshweave {

enum class EmulationPrecision : std::uint8_t { single_precision, double_precision };
std::string_view name_of(EmulationPrecision);  // "float", "double"

// A lowered program and what follows from it. Waits and liveness are by body.
struct EmulationInput {
  const Scenario* scenario = nullptr;
  const Program* program = nullptr;
  const Communicators* communicators = nullptr;
  const std::vector<Waits>* waits = nullptr;
  const std::vector<Liveness>* liveness = nullptr;
};

struct EmulationSettings {
  int steps = 2;
  EmulationPrecision precision = EmulationPrecision::double_precision;
  InterpreterSettings interpreter;
  std::function<void(const std::string&)> on_progress;  // for people: "reference: step 1 of 2", "emulate: 40 %"
};

struct ParameterError {
  ParameterKey parameter;
  double gradient = 0;
  double update = 0;
};

// The first op, in the order of execution, whose value differs.
struct WrongOp {
  int rank = 0;
  int step = 0;
  std::uint32_t op = 0;
  std::string text;  // "rank 3: all-reduce "fc2", forward, language layer 2, micro-batch 1: fc2 is off by 0.3"
};

struct EmulationReport {
  std::vector<double> loss, reference_loss;  // by step
  double loss_error = 0;                     // largest relative difference
  std::vector<ParameterError> parameters;    // in model order; empty for a forward pass
  // Largest relative difference of the global gradient norm, before the clip; 0 where no norm is made.
  double norm_error = 0;
  double gradient_error = 0, update_error = 0;  // largest of the parameters
  double tolerance = 0;                         // 1e-10 double, 1e-4 float (loss and gradients only)
  bool updates_shown = false;                   // train, and the learning rate is at least `least_learning_rate`
  bool updates_judged = false;                  // and computed in double
  std::string stuck;                            // empty, or where the program stands still
  bool matches = false;
  InterpreterRun run;
};

// Of a parameter of size 1 a step of Adam changes about the learning rate; its last digit, 2^-52, is then more
// than the tolerance of an update, 1e-10.
constexpr double least_learning_rate = 2.2e-6;

// Whether the step makes a global gradient norm.
bool makes_norm(const Scenario& scenario);

// Reference settings of the only module of a scenario.
ReferenceSettings reference_settings(const Scenario& scenario);

EmulationReport emulate(const EmulationInput& input, const EmulationSettings& settings);
// The same against a reference that has run already: its losses, and its state behind the last step.
struct ReferenceRun {
  std::vector<double> loss, norm;                // by step
  ParameterMap parameters, gradients, divisors;  // behind the last step; empty for a forward pass
  double largest_gradient = 0;                   // element, of all steps
};
ReferenceRun run_reference(const Scenario& scenario, int steps,
                           const std::function<void(const std::string&)>& on_progress = {});
EmulationReport emulate(const EmulationInput& input, const EmulationSettings& settings, const ReferenceRun& reference);

}  // namespace meshweave
