// The command meshweave: signals, the command line, the command.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/cli/command_line.h"
#include "sim/cli/commands.h"
#include "sim/cli/console.h"

namespace {

meshweave::InterruptFlag interrupted{0};

// What is said for a run that does not look at `interrupted` in time.
std::string last_words;
pid_t main_process = 0;

constexpr unsigned patience_s = 1;

extern "C" void on_signal(int signal) {
  if (interrupted != 0) return;
  interrupted = signal;
  alarm(patience_s);
}

// As shells tell who ended a command: 130 for Ctrl-C, 143 for SIGTERM, 129 for a terminal that closed.
int exit_code_of_signal() { return 128 + interrupted; }

// Files are at stake only while a trace is written, which looks at `interrupted` all the time.
extern "C" void on_alarm(int) {
  if (getpid() == main_process && write(STDERR_FILENO, last_words.data(), last_words.size()) < 0) {
    // Nobody listens.
  }
  _exit(exit_code_of_signal());
}

}  // namespace

int main(int argc, char** argv) {
  // What one phase frees the next one takes: giving it back to the system in between and faulting it in again would
  // cost a fifth of a short run.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  main_process = getpid();
  const meshweave::Diagnostic interruption{{}, 0, 0, {}, "interrupted", {}, {}};
  last_words = json ? meshweave::errors_json({interruption}) : meshweave::format(interruption);
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  if (std::signal(SIGHUP, on_signal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // nohup
  std::signal(SIGALRM, on_alarm);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow further is answered by the write
  meshweave::CommandLine line;
  try {
    line = meshweave::parse_command_line(arguments);
  } catch (const meshweave::UsageError& error) {
    meshweave::Console(meshweave::ProgressMode::never, json).error(error.what(), error.hint());
    return meshweave::exit_usage;
  }
  meshweave::Console console(line.progress, line.json);
  const meshweave::ExitCode code = meshweave::run_command(line, console, interrupted);
  alarm(0);
  return code == meshweave::exit_interrupted ? exit_code_of_signal() : code;
}
