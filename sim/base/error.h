// The two kinds of error: a user's mistake is a value with a position and a hint; a bug ends the program.
//
// A Diagnostic prints as
//   scenarios/a.json:6:11: error: /cluster/nodes: must be at least 1 (is 0)
//       "nodes": 0
//                ^
//   hint: ...
// Readers collect Diagnostics (up to 20) and throw one InputError with all of them.
#pragma once

#include <atomic>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace meshweave {

struct Diagnostic {
  std::string file;         // as the user named it; empty where no file is concerned
  int line = 0;             // 1-based; 0 where unknown
  int column = 0;           // 1-based, in bytes
  std::string pointer;      // RFC 6901 JSON pointer, for example "/layout/language/tp"
  std::string message;      // what is wrong (what would be right)
  std::string hint;         // may be empty
  std::string source_line;  // the line of the file, for the caret; may be empty
};

// The text above, ending with a newline, with control characters escaped. Source lines longer than 100 columns are cut
// around the caret.
std::string format(const Diagnostic& diagnostic);

constexpr std::size_t max_diagnostics = 20;

// A user's mistake in a file or an override: exit code 3.
class InputError : public std::runtime_error {
 public:
  explicit InputError(std::vector<Diagnostic> diagnostics);
  explicit InputError(std::string message);  // without position
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

// A file that cannot be read or written: exit code 4.
class IoError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The run was interrupted: exit code 128 and the number of the signal, 130 for Ctrl-C.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(const std::string& message = "interrupted") : std::runtime_error(message) {}
};

// The wish to stop: a signal handler makes it the signal's number, any thread reads it.
using InterruptFlag = std::atomic<int>;
static_assert(InterruptFlag::is_always_lock_free, "or a signal handler may not set it");

// Throws Interrupted when there is such a flag and it has become non-zero.
inline void check_interrupt(const InterruptFlag* interrupt) {
  if (interrupt != nullptr && *interrupt != 0) throw Interrupted();
}

// Ends the program with "this is a bug in meshweave", the place and `what`; exit code 70. Never for bad input.
// The place is that of the call: clang 14 has no std::source_location, but the builtins beneath it.
[[noreturn]] void bug(std::string_view what, const char* file = __builtin_FILE(), int line = __builtin_LINE());

// bug() unless `condition`.
inline void ensure(bool condition, std::string_view what, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  if (!condition) bug(what, file, line);
}

// The candidate nearest to `name` by edit distance (Damerau-Levenshtein, at most 3 and less than half of the
// name's length + 1); empty when none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace meshweave
