// Which op went wrong first: the program runs again and every value that an op makes is compared with the
// reference's value of the same identity (name, layer, samples, index range), in the order of execution, in
// double. Parameters that an optimizer step has made right are set to the reference's: training may amplify
// rounding, and that is no op's fault.
//
// A tensor that is a partial sum is compared when all ranks of the sum have made it, with the sum. A main
// gradient is compared with the contributions that it should hold by then: of every use and micro-batch whose
// weight-gradient op has run. Values that the reference does not make (statistics, exponentials) show in what
// follows from them.
#pragma once

#include <optional>

#include "sim/emulate/emulate.h"

namespace meshweave {

// Nothing where no value differs, or the first that does in an order of the same settings. Keeps every value
// of the reference in memory: meant for tiny models.
std::optional<WrongOp> first_wrong_op(const EmulationInput& input, const EmulationSettings& settings);

}  // namespace meshweave
