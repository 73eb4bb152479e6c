#include "sim/cli/trace_option.h"

#include <fmt/format.h>

#include <filesystem>

#include "sim/report/report_table.h"
#include "sim/trace/atomic_file.h"

namespace meshweave {
namespace {

namespace fs = std::filesystem;

// "x.json.gz" for "x.txt", "folder/trace.json.gz" for "folder/".
std::string proper_trace_file(const fs::path& path) {
  const fs::path stem = path.has_filename() ? path.stem() : fs::path("trace");
  return (path.parent_path() / stem).string() + ".json.gz";
}

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
  std::error_code ignored;  // of files that do not exist
  if (fs::equivalent(line.trace_file, line.targets.front(), ignored)) {
    throw UsageError(fmt::format("--trace: {} is the scenario", line.trace_file), "for example --trace trace.json.gz");
  }
  file_to_replace(line.trace_file);
  if (!line.trace_file.ends_with(".json") && !line.trace_file.ends_with(".json.gz")) {
    throw UsageError(fmt::format("--trace: {} ends in neither .json nor .json.gz", line.trace_file),
                     fmt::format("for example --trace {}", proper_trace_file(line.trace_file)));
  }
  const fs::path folder = fs::path(line.trace_file).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, ignored))
    throw IoError(fmt::format("{} cannot be created: there is no folder {}", line.trace_file, folder.string()));
}

void check_trace_inputs(const CommandLine& line, const Scenario& scenario) {
  for (const auto& [file, hash] : scenario.inputs) {
    std::error_code ignored;  // of files that do not exist
    if (fs::equivalent(line.trace_file, file, ignored))
      throw UsageError(fmt::format("--trace: {} is read by the scenario", line.trace_file), "for example --trace trace.json.gz");
  }
}

}  // namespace meshweave
