#include "sim/cli/emulate_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include "sim/base/error.h"
#include "sim/base/parallel_for.h"
#include "sim/cli/trace_option.h"
#include "sim/emulate/diagnose.h"
#include "sim/emulate/tiny.h"
#include "sim/report/build_trace.h"
#include "sim/report/emulated_timeline.h"
#include "sim/report/emulation_report.h"
#include "sim/report/report_table.h"
#include "sim/search/pipeline.h"
#include "sim/trace/trace_writer.h"

namespace meshweave {
namespace {

// The memory of all ranks, in bytes: at least as much as the program's, whose elements have two bytes or
// more.
double memory_of(const RunOutcome& run, EmulationPrecision precision) {
  double bytes = 0;
  for (const std::uint32_t body : run.program.body_of_rank) bytes += static_cast<double>(run.liveness[body].peak_bytes);
  return bytes * (precision == EmulationPrecision::double_precision ? 4 : 2);
}

void check_size(const RunOutcome& run, const CommandLine& line) {
  const double needed = memory_of(run, line.precision);
  const double present = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (needed < 0.8 * present) return;
  throw UsageError(fmt::format("emulate: all {} of the model would take about {}, more than 80 % of this machine's {}",
                               count_text(run.program.ranks(), "rank"), bytes_text(needed), bytes_text(present)),
                   "--model-scale tiny makes the model small and keeps the layout");
}

void write_emulated_trace(const CommandLine& line, RunOutcome& run, const InterpreterRun& rounds,
                          const InterruptFlag& interrupt) {
  run.replay = emulated_timeline(run.program, run.communicators, run.waits, rounds);
  Trace trace = build_trace(run.view(), line.trace, version_text());
  trace.provenance.executor = "numeric";
  trace.provenance.emulation =
      TraceEmulation{std::string(model_scale_name(line.tiny)), std::string(name_of(line.precision)), line.steps};
  write_trace(trace, line.trace_file, &interrupt);
}

}  // namespace

ExitCode emulate_command(const CommandLine& line, Console& console, const InterruptFlag& interrupt) {
  if (!line.trace_file.empty()) check_trace_file(line);
  Scenario scenario = read_scenario(line.targets.front(), line.overrides);
  if (!line.trace_file.empty()) check_trace_inputs(line, scenario);
  if (line.tiny) scenario = tiny_scenario(scenario);
  RunSettings preparation;
  preparation.fold = false;  // every rank has values of its own
  preparation.interrupt = &interrupt;
  preparation.on_phase = [&console](std::string_view phase) { console.progress(phase); };
  RunOutcome run = prepare_run(std::move(scenario), preparation);
  check_ranks(line.trace, run.program.ranks());
  check_size(run, line);
  const EmulationInput input{&run.scenario, &run.program, &run.communicators, &run.waits, &run.liveness};
  EmulationSettings settings;
  settings.steps = line.steps;
  settings.precision = line.precision;
  settings.interpreter.threads = thread_count(line.jobs);
  settings.interpreter.interrupt = &interrupt;
  settings.on_progress = [&console](const std::string& text) { console.progress(text); };
  const EmulationReport report = emulate(input, settings);
  const EmulationJudgement judgement = judge(input, settings, report);
  const EmulationView view{run.scenario, line.tiny, run.program.ranks(), settings.precision, report, judgement};
  if (line.json) {
    JsonText out(2);
    out.object();
    write_emulation(out, view);
    out.end();
    console.result(out.take() + "\n");
  } else {
    console.result(emulation_page(view));
  }
  // Behind the result, which a trace that cannot be written must not take away.
  if (!line.trace_file.empty()) write_emulated_trace(line, run, report.run, interrupt);
  return judgement.verdict == EmulationVerdict::differs ? exit_check_failed : exit_ok;
}

}  // namespace meshweave
