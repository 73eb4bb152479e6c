#include "sim/cli/trace_option.h"

#include <fmt/format.h>

#include <filesystem>

#include "sim/base/atomic_file.h"
#include "sim/report/report_table.h"

namespace meshweave {
namespace {

namespace fs = std::filesystem;

// "x.json.gz" for "x.txt".
std::string proper_trace_file(fs::path path) { return path.replace_extension(".json.gz").string(); }

}  // namespace

void check_ranks(const TraceRequest& request, int ranks) {
  for (const int rank : request.ranks) {
    if (rank >= ranks) throw UsageError(fmt::format("--ranks: there is no rank {} (0 to {})", rank, ranks - 1));
  }
}

void check_window(const TraceRequest& request, const Trace& trace) {
  if (!request.window || request.window->first <= trace.step_end) return;
  const auto text = [](Picoseconds time) { return seconds_text(seconds_from_picoseconds(time)); };
  throw UsageError(fmt::format("--window: begins at {}, but the step lasts from {} to {}", text(request.window->first),
                               text(trace.step_begin), text(trace.step_end)),
                   "the times are those of the trace's axis");
}

void check_trace_file(const CommandLine& line) {
  file_to_replace(line.trace_file);
  if (line.trace_file.ends_with(".json") || line.trace_file.ends_with(".json.gz")) return;
  throw UsageError(fmt::format("--trace: {} ends in neither .json nor .json.gz", line.trace_file),
                   fmt::format("for example --trace {}", proper_trace_file(line.trace_file)));
}

void check_trace_inputs(const CommandLine& line, const Scenario& scenario) {
  for (const auto& [file, hash] : scenario.inputs) {
    std::error_code ignored;  // of files that do not exist
    if (!fs::equivalent(line.trace_file, file, ignored)) continue;
    throw UsageError(fmt::format("--trace: {} is {}", line.trace_file,
                                 file == line.targets.front() ? "the scenario" : "read by the scenario"),
                     "for example --trace trace.json.gz");
  }
}

}  // namespace meshweave
