#include "sim/cli/compare_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/report/comparison.h"
#include "sim/scenario/input_file.h"
#include "sim/search/pipeline.h"
#include "sim/trace/trace_reader.h"

namespace meshweave {
namespace {

ComparedRun read_run(const std::string& file, const CommandLine& line, Console& console,
                     const InterruptFlag& interrupt) {
  const std::string prefix = file + ": ";
  if (!is_trace_file(file)) {
    RunSettings settings;
    settings.executor = line.executor;
    settings.interrupt = &interrupt;
    settings.on_phase = [&](std::string_view phase) { console.progress(prefix + std::string(phase)); };
    const RunOutcome run = parse_and_run(read_text_file(file), file, {}, settings);
    return compared_run(run.view(), file);
  }
  console.progress(prefix + "read");
  const Trace trace = read_trace(file);
  check_interrupt(&interrupt);
  try {
    return compared_run(trace, file);
  } catch (const InputError& error) {
    Diagnostic diagnostic = error.diagnostics().front();
    diagnostic.file = file;
    throw InputError(std::vector<Diagnostic>{std::move(diagnostic)});
  }
}

void check_executor(const CommandLine& line) {
  if (!line.executor_given || !std::all_of(line.targets.begin(), line.targets.end(), is_trace_file)) return;
  throw UsageError("--executor has no effect: both are traces, and nothing is simulated", "leave it out");
}

}  // namespace

ExitCode compare_command(const CommandLine& line, Console& console, const InterruptFlag& interrupt) {
  check_executor(line);
  ComparedRun a = read_run(line.targets[0], line, console, interrupt);
  ComparedRun b = read_run(line.targets[1], line, console, interrupt);
  const Comparison comparison = compare_runs(std::move(a), std::move(b));
  if (line.json) {
    JsonText out(2);
    out.object();
    write_comparison(out, comparison);
    out.end();
    console.result(out.take() + "\n");
  } else {
    console.result(comparison_page(comparison));
  }
  return exit_ok;
}

}  // namespace meshweave
