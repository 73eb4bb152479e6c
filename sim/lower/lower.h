// Lowering: from a checked scenario and its plan to the program that every executor plays.
#pragma once

#include "sim/layout/plan.h"
#include "sim/program/program.h"
#include "sim/scenario/scenario.h"

namespace meshweave {

Program lower(const Scenario& scenario, const Plan& plan);

}  // namespace meshweave
