// What the process returns.
#pragma once

namespace meshweave {

enum ExitCode : int {
  exit_ok = 0,
  exit_check_failed = 1,
  exit_usage = 2,
  exit_bad_input = 3,
  exit_io = 4,
  exit_bug = 70,  // returned by bug() itself
  exit_interrupted = 130,
  exit_broken_pipe = 141,  // as of a command that SIGPIPE ends
};

}  // namespace meshweave
