// The command compare: two runs, each a scenario that is simulated or a trace that was written, and what the difference
// of their step times consists of.
#pragma once

#include "sim/cli/command_line.h"
#include "sim/cli/console.h"
#include "sim/cli/exit_code.h"

namespace meshweave {

ExitCode compare_command(const CommandLine& line, Console& console, const InterruptFlag& interrupt);

}  // namespace meshweave
