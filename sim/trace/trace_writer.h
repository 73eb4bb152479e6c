// Writes a trace as Chrome JSON that Perfetto, chrome://tracing and the viewer read: one process per rank, one
// thread per stream, complete events that never overlap on a thread, flows, counters. FORMAT.md is the format's page.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "sim/base/error.h"
#include "sim/trace/trace.h"

namespace meshweave {

// The whole file or nothing; compressed where the name ends in ".gz". Throws IoError, and Interrupted when
// `interrupt` becomes non-zero.
void write_trace(const Trace& trace, const std::string& path, const InterruptFlag* interrupt = nullptr);

// The same text in pieces of about a megabyte.
void write_trace(const Trace& trace, const std::function<void(std::string_view)>& sink);

}  // namespace meshweave
