// Modules inside others: who stands in whose pipeline stages, and whether the host's layout fits them. Fills the hosts
// of Scenario::model, its padded heads, and Scenario::layout_by_module.
#pragma once

#include "sim/scenario/report_at.h"
#include "sim/scenario/scenario_fields.h"

namespace meshweave {

// Which modules have layouts of their own. The graph must be resolved.
void resolve_hosts(ScenarioForm& form, const ReportAt& report);
// Layouts of all modules; those of modules that stand inside no other must be resolved.
void resolve_hosted_layouts(ScenarioForm& form, const ReportAt& report);

}  // namespace meshweave
