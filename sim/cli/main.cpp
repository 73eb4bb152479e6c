// The command meshweave: signals, the command line, the command.
#include <malloc.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "sim/cli/command_line.h"
#include "sim/cli/commands.h"
#include "sim/cli/console.h"

namespace {

volatile int interrupted = 0;

extern "C" void on_signal(int) { interrupted = 1; }

}  // namespace

int main(int argc, char** argv) {
  // What one phase frees the next one takes: giving it back to the system in between and faulting it in again would
  // cost a fifth of a short run.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  meshweave::CommandLine line;
  try {
    line = meshweave::parse_command_line(arguments);
  } catch (const meshweave::UsageError& error) {
    meshweave::Console(meshweave::ProgressMode::never, json).error(error.what(), error.hint());
    return meshweave::exit_usage;
  }
  meshweave::Console console(line.progress, line.json);
  return meshweave::run_command(line, console, interrupted);
}
