// Lowering: from a checked scenario and its plan to the program that every executor plays.
#pragma once

#include "sim/base/error.h"
#include "sim/layout/plan.h"
#include "sim/program/program.h"
#include "sim/scenario/scenario.h"

namespace meshweave {

// Throws Interrupted when `interrupt` becomes non-zero.
Program lower(const Scenario& scenario, const Plan& plan, const InterruptFlag* interrupt = nullptr);

}  // namespace meshweave
