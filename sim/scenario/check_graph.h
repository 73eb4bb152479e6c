// The module graph of a scenario: fills Scenario::model with vertices and edges, and what follows from them (items per
// sample, positions in the language model's sequence, widths, hosts), and reports what is no graph that can be trained.
#pragma once

#include "sim/scenario/report_at.h"
#include "sim/scenario/scenario_fields.h"

namespace meshweave {

// The shapes must be resolved. Fills the form's items, fractions and merges too.
void resolve_graph(ScenarioForm& form, const ReportAt& report);

}  // namespace meshweave
