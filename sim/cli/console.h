// The terminal: results to stdout, everything else to stderr; one line of progress where somebody looks on.
#pragma once

#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/cli/command_line.h"

namespace meshweave {

// Nobody reads standard output any more, as behind "| head -1": the command ends without a word.
class BrokenPipe : public std::runtime_error {
 public:
  BrokenPipe() : std::runtime_error("broken pipe") {}
};

class Console {
 public:
  Console(ProgressMode progress, bool json);
  ~Console();

  // Throws BrokenPipe when nobody reads stdout any more, IoError when it takes no more.
  void result(std::string_view text);
  void message(std::string_view text);  // to stderr, as it is
  // Errors, as text or as {"errors": […]} with --json.
  void errors(const std::vector<Diagnostic>& diagnostics);
  void error(std::string_view message, std::string_view hint = {});

  // Replaces the line of progress; nothing unless progress is shown. Safe to call from several threads.
  void progress(std::string_view text);
  void clear_progress();

 private:
  std::mutex mutex_;
  bool json_ = false;
  bool shows_progress_ = false;
  bool colours_ = false;
  bool has_line_ = false;
};

// The line {"errors": […]}.
std::string errors_json(const std::vector<Diagnostic>& diagnostics);

}  // namespace meshweave
