// The layout of a module on its ranks: fills dp, ranks and stages, and reports what does not divide.
#pragma once

#include <string>

#include "sim/scenario/report_at.h"
#include "sim/scenario/scenario_fields.h"

namespace meshweave {

// `at` is the pointer of the module's layout.
void resolve_layout(ScenarioForm& form, const TransformerShape& shape, LayoutForm& layout, const std::string& at,
                    const ReportAt& report);

}  // namespace meshweave
