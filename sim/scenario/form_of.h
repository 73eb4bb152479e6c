// A resolved scenario as the form that it was read from would be with every default written out: what a scenario that
// is changed in memory is written and checked by.
#pragma once

#include "sim/scenario/scenario_fields.h"

namespace meshweave {

// A module inside another names the host whose layout it has.
ScenarioForm form_of(const Scenario& scenario);
// The form as JSON text.
std::string resolved_text(ScenarioForm& form);

}  // namespace meshweave
