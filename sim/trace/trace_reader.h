// Reads a trace file of this project's own format (FORMAT.md) back, compressed or not.
#pragma once

#include <string>
#include <string_view>

#include "sim/trace/trace.h"

namespace meshweave {

// Whether a file looks like a trace, of this tool or another: compressed, or JSON that begins with the keys of one.
// False for what is no regular file, which gives its text only once, and for what cannot be read.
bool is_trace_file(const std::string& path);

// Throws IoError where the file cannot be read and InputError where it is not such a trace.
Trace read_trace(const std::string& path);
// The same from text; `name` stands for the file in messages.
Trace parse_trace(std::string_view text, const std::string& name);

}  // namespace meshweave
