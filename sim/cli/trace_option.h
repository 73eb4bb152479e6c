// What --trace, --ranks and --window may name. Each throws UsageError (check_trace_file also IoError) where it may not.
#pragma once

#include "sim/cli/command_line.h"
#include "sim/trace/trace.h"

namespace meshweave {

// Asked first: its name says that it is a trace, and it can be written there.
void check_trace_file(const CommandLine& line);
// Asked before the run: a trace never takes the place of the scenario that it is of, nor of a file that this names.
void check_trace_inputs(const CommandLine& line, const Scenario& scenario);
// Ranks that --ranks names must exist.
void check_ranks(const TraceRequest& request, int ranks);
// A window behind the step would leave nothing of it.
void check_window(const TraceRequest& request, const Trace& trace);

}  // namespace meshweave
