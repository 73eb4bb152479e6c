#include "sim/cli/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sim/base/json_text.h"
#include "sim/base/text.h"
#include "sim/report/diagnostics_json.h"

namespace meshweave {
namespace {

bool is_smart_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::strcmp(term, "dumb") != 0;
}

bool wants_no_colour() {
  const char* value = std::getenv("NO_COLOR");
  return value != nullptr && value[0] != '\0';
}

void write_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

Console::Console(ProgressMode progress, bool json) : json_(json) {
  shows_progress_ = progress == ProgressMode::always || (progress == ProgressMode::automatic && is_smart_terminal());
  colours_ = is_smart_terminal() && !wants_no_colour();
}

Console::~Console() { clear_progress(); }

void Console::result(std::string_view text) {
  clear_progress();
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    if (errno == EPIPE) throw BrokenPipe();
    throw IoError(fmt::format("standard output cannot be written: {}", std::strerror(errno)));
  }
}

void Console::message(std::string_view text) {
  clear_progress();
  write_stderr(text);
}

void Console::errors(const std::vector<Diagnostic>& diagnostics) {
  if (json_) return message(errors_json(diagnostics));
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    std::string one = format(diagnostic);
    if (colours_) {
      const std::size_t at = one.find("error:");
      if (at != std::string::npos) one.replace(at, 6, "\033[1;31merror:\033[0m");
    }
    text += one;
  }
  message(text);
}

void Console::error(std::string_view message, std::string_view hint) {
  Diagnostic diagnostic;
  diagnostic.message = message;
  diagnostic.hint = hint;
  errors({diagnostic});
}

void Console::progress(std::string_view text) {
  if (!shows_progress_) return;
  const std::lock_guard lock(mutex_);
  constexpr std::size_t widest = 78;
  write_stderr(fmt::format("\r\033[K{}", escaped(text.substr(0, widest))));
  has_line_ = true;
}

void Console::clear_progress() {
  const std::lock_guard lock(mutex_);
  if (has_line_) write_stderr("\r\033[K");
  has_line_ = false;
}

std::string errors_json(const std::vector<Diagnostic>& diagnostics) {
  return "{\"errors\":" + diagnostics_json(diagnostics) + "}\n";
}

}  // namespace meshweave
