// Which op went wrong first: the program runs again and every value that an op makes is compared with the
// reference's value of the same identity (name, layer, samples, index range), in the order of execution, in
// double. Parameters that an optimizer step has made right are set to the reference's: training may amplify
// rounding, and that is no op's fault.
//
// A tensor that is a partial sum is compared when all ranks of the sum have made it, with the sum. A main
// gradient is compared with the contributions that it should hold by then: of every use and micro-batch whose
// weight-gradient op has run. Values that the reference does not make (statistics, exponentials) show in what
// follows from them.
//
// The verdict on an emulation follows: errors above the tolerance are an op's fault, unless training amplifies
// rounding, which two steps do not do yet and no single op does.
#pragma once

#include <optional>

#include "sim/emulate/emulate.h"

namespace meshweave {

struct OpComparison {
  std::optional<WrongOp> wrong;  // the first value that differs, in an order of the same settings
  double largest = 0;            // relative error of any value up to there
};
// Keeps every value that the reference makes in the steps under way in memory: meant for tiny models.
OpComparison compare_ops(const EmulationInput& input, const EmulationSettings& settings);
std::optional<WrongOp> first_wrong_op(const EmulationInput& input, const EmulationSettings& settings);

enum class EmulationVerdict : std::uint8_t {
  matches,   // every error is within the tolerance
  rounding,  // training of more than two steps, which alone match, and no op of any step makes a wrong value
  differs,
};
std::string_view name_of(EmulationVerdict);  // "matches", …

struct EmulationJudgement {
  EmulationVerdict verdict = EmulationVerdict::matches;
  std::optional<OpComparison> ops;           // nothing where the emulation matches
  std::optional<EmulationReport> two_steps;  // where more were emulated and no op is wrong
};
// Of an emulation with the same input and settings.
EmulationJudgement judge(const EmulationInput& input, const EmulationSettings& settings, const EmulationReport& report);

}  // namespace meshweave
