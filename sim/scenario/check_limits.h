// Limits that keep every number of a run within its type: ranks, parameters, tensor sizes, durations.
#pragma once

#include "sim/scenario/report_at.h"
#include "sim/scenario/scenario.h"

namespace meshweave {

// Graph and `layout` must be resolved.
void check_limits(const Scenario& scenario, const Module& module, const ModuleLayout& layout, const ReportAt& report);

}  // namespace meshweave
