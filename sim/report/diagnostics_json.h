// Diagnostics as a JSON array of {file, line, column, pointer, message, hint}.
#pragma once

#include <string>
#include <vector>

#include "sim/base/error.h"

namespace meshweave {

std::string diagnostics_json(const std::vector<Diagnostic>& diagnostics);

}  // namespace meshweave
