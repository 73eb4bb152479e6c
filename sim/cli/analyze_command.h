// The command `meshweave analyze`: the TSP paper's strategies at one number of devices, as tables and as a chart.
#pragma once

#include "sim/base/error.h"
#include "sim/cli/command_line.h"
#include "sim/cli/console.h"
#include "sim/cli/exit_code.h"

namespace meshweave {

// exit_bad_input where no strategy is possible.
ExitCode analyze_command(const CommandLine& line, Console& console, const InterruptFlag& interrupt);

}  // namespace meshweave
