// One trial of the scenario reader, shared by the libFuzzer target and by the regression over its seeds.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "sim/base/error.h"
#include "sim/scenario/reader.h"

namespace meshweave {

// Reads `text` as a scenario. Whatever it is, the reader either throws InputError with at least one mistake, or the
// resolved scenario reads again and resolves to itself; anything else aborts. True when the text is a scenario.
inline bool try_scenario(std::string_view text) {
  Scenario scenario;
  try {
    scenario = parse_scenario(text, "fuzz.json");
  } catch (const InputError& error) {
    if (error.diagnostics().empty() || error.diagnostics().size() > max_diagnostics) std::abort();
    return false;
  }
  if (parse_scenario(scenario.resolved_json, "fuzz.json").resolved_json != scenario.resolved_json) std::abort();
  return true;
}

}  // namespace meshweave
