// The commands of meshweave: each takes the parsed command line and returns the process's exit code.
#pragma once

#include "sim/base/error.h"
#include "sim/cli/command_line.h"
#include "sim/cli/console.h"
#include "sim/cli/exit_code.h"

namespace meshweave {

// Runs the command; errors become messages on the console and exit codes. `interrupt` is set by a signal handler.
ExitCode run_command(const CommandLine& line, Console& console, const InterruptFlag& interrupt);

}  // namespace meshweave
