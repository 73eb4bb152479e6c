// Reads scenario files: from JSON text to a checked, resolved Scenario, or to an InputError with every mistake.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/scenario/scenario.h"

namespace meshweave {

// One `--set /json/pointer=value`; the value is JSON, or a plain string when it does not parse as JSON. A pointer that
// ends in "/-" appends to a list.
struct Override {
  std::string pointer;
  std::string value;
  std::string option = "--set";  // as messages name it
};

// Reads, applies the overrides, checks and resolves. Throws InputError (bad content) or IoError (no such file).
Scenario read_scenario(const std::string& path, const std::vector<Override>& overrides = {});
// The same from text; `path` names it in messages and is where relative references start.
Scenario parse_scenario(std::string_view text, const std::string& path, const std::vector<Override>& overrides = {});

// JSON Schema (draft-07) that accepts what the reader accepts, as far as a schema can say it.
std::string scenario_schema();

// Names of the shipped entries, sorted.
struct CatalogNames {
  std::vector<std::string> models, devices, nodes, fabrics;
};
CatalogNames list_catalog();

}  // namespace meshweave
