// The command `meshweave emulate`: runs a scenario's program with real numbers and compares it with the
// reference.
#pragma once

#include "sim/base/error.h"
#include "sim/cli/command_line.h"
#include "sim/cli/console.h"
#include "sim/cli/exit_code.h"

namespace meshweave {

// exit_check_failed where the program does not train as the reference does.
ExitCode emulate_command(const CommandLine& line, Console& console, const InterruptFlag& interrupt);

}  // namespace meshweave
