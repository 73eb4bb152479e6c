// The command line of meshweave, parsed into plain data.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "sim/emulate/emulate.h"
#include "sim/execute/replay.h"
#include "sim/report/build_trace.h"
#include "sim/scenario/reader.h"
#include "sim/search/strategy_sweep.h"

namespace meshweave {

enum class Command : std::uint8_t { help, run, check, explain, analyze, compare, emulate, list, schema };
enum class ProgressMode : std::uint8_t { automatic, always, never };

// `--vary /pointer=a,b,c`: one run per value, crossed with the other --vary.
struct Vary {
  std::string pointer;
  std::vector<std::string> values;
};

// Of the command analyze.
struct AnalyzeOptions {
  int devices = 0;                     // 0: tp · cp · tsp of the scenario
  std::string plot_file;               // empty: none
  std::vector<std::int64_t> sequence;  // ascending; at most one of the two is swept
  std::vector<std::int64_t> micro;
  SweepMetric metric = SweepMetric::time;
};

struct CommandLine {
  Command command = Command::help;
  std::string help;                  // Command::help: the text to print
  std::vector<std::string> targets;  // scenario files and folders
  std::vector<Override> overrides;
  std::vector<Vary> vary;
  Executor executor = Executor::analytic;
  bool executor_given = false;
  bool fold = true;
  int jobs = 0;  // 0: one per processor
  bool json = false;
  bool timing = true;
  bool stats = false;
  ProgressMode progress = ProgressMode::automatic;
  std::string trace_file;  // empty: none
  TraceRequest trace;
  bool print_program = false;
  int print_body = -1;       // −1: all bodies
  std::string list_section;  // empty: all
  AnalyzeOptions analyze;
  int steps = 2;  // of emulate
  EmulationPrecision precision = EmulationPrecision::double_precision;
  bool tiny = false;  // emulate a small model in the scenario's layout
};

// A mistake on the command line: exit code 2.
class UsageError : public std::runtime_error {
 public:
  explicit UsageError(std::string message, std::string hint = {})
      : std::runtime_error(std::move(message)), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

// `arguments` without the program's name. Throws UsageError.
CommandLine parse_command_line(const std::vector<std::string>& arguments);

// Splits at the commas that stand outside quotes, brackets and braces.
std::vector<std::string> split_values(std::string_view text);

std::string_view version_text();  // "meshweave 0.1.0"

}  // namespace meshweave
