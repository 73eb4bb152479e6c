// Lowering: from a checked scenario and its plan to the program that every executor plays.
#pragma once

#include "sim/layout/plan.h"
#include "sim/program/program.h"
#include "sim/scenario/scenario.h"

namespace meshweave {

// Throws Interrupted when `interrupt` becomes non-zero.
Program lower(const Scenario& scenario, const Plan& plan, const volatile int* interrupt = nullptr);

}  // namespace meshweave
