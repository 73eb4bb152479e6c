// Reads a trace file of this project's own format (FORMAT.md) back, compressed or not.
#pragma once

#include <string>
#include <string_view>

#include "sim/trace/trace.h"

namespace meshweave {

// Throws IoError where the file cannot be read and InputError where it is not such a trace.
Trace read_trace(const std::string& path);
// The same from text; `name` stands for the file in messages.
Trace parse_trace(std::string_view text, const std::string& name);

}  // namespace meshweave
