#include "sim/cli/emulate_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <thread>

#include "sim/base/error.h"
#include "sim/cli/pipeline.h"
#include "sim/cli/trace_option.h"
#include "sim/emulate/diagnose.h"
#include "sim/emulate/tiny.h"
#include "sim/report/build_trace.h"
#include "sim/report/emulated_timeline.h"
#include "sim/report/emulation_report.h"
#include "sim/report/report_table.h"
#include "sim/trace/trace_writer.h"

namespace meshweave {
namespace {

// What follows from a lowered program.
struct Lowered {
  Scenario scenario;
  Plan plan;
  Program program;
  Communicators communicators;
  std::vector<Waits> waits;
  std::vector<Liveness> liveness;

  EmulationInput input() const { return {&scenario, &program, &communicators, &waits, &liveness}; }
};

Lowered lower_for_emulation(const CommandLine& line, Console& console, const InterruptFlag& interrupt) {
  Lowered l;
  l.scenario = read_scenario(line.targets.front(), line.overrides);
  if (line.tiny) l.scenario = tiny_scenario(l.scenario);
  console.progress("lower");
  l.plan = make_plan(l.scenario);
  l.program = lower_verified(l.scenario, &interrupt);
  l.communicators = make_communicators(l.program);
  for (const Body& body : l.program.bodies) {
    l.waits.push_back(derive_waits(l.program, body));
    l.liveness.push_back(derive_liveness(l.program, body, l.waits.back()));
  }
  return l;
}

// The memory of all ranks, in bytes: at least as much as the program's, whose elements have two bytes or
// more.
double memory_of(const Lowered& l, EmulationPrecision precision) {
  double bytes = 0;
  for (const std::uint32_t body : l.program.body_of_rank)
    bytes += static_cast<double>(l.liveness[body].peak_bytes);
  return bytes * (precision == EmulationPrecision::double_precision ? 4 : 2);
}

void check_size(const Lowered& l, const CommandLine& line) {
  const double needed = memory_of(l, line.precision);
  const double present =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (needed < 0.8 * present) return;
  throw UsageError(
      fmt::format("emulate: all {} of the model would take about {}, of which this machine has {}",
                  count_text(l.program.ranks(), "rank"), gigabytes_text(needed), gigabytes_text(present)),
      "--model-scale tiny makes the model small and keeps the layout");
}

void write_emulated_trace(const CommandLine& line, const Lowered& l, const InterpreterRun& run,
                          const InterruptFlag& interrupt) {
  const RankClasses classes = all_ranks(l.program);
  const ReplayResult timeline = emulated_timeline(l.program, l.communicators, l.waits, run);
  const RunView view{l.scenario, l.plan, l.program, l.communicators, classes, l.liveness, timeline};
  Trace trace = build_trace(view, line.trace, version_text());
  trace.provenance.executor = "numeric";
  write_trace(trace, line.trace_file, &interrupt);
}

}  // namespace

ExitCode emulate_command(const CommandLine& line, Console& console, const InterruptFlag& interrupt) {
  if (!line.trace_file.empty()) check_trace_file(line);
  const Lowered l = lower_for_emulation(line, console, interrupt);
  check_ranks(line.trace, l.program.ranks());
  check_size(l, line);
  EmulationSettings settings;
  settings.steps = line.steps;
  settings.precision = line.precision;
  settings.interpreter.threads =
      line.jobs > 0 ? line.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  settings.interpreter.interrupt = &interrupt;
  console.progress("emulate");
  const EmulationReport report = emulate(l.input(), settings);
  std::optional<WrongOp> wrong;
  if (!report.matches) {
    console.progress("look for the first wrong value");
    wrong = first_wrong_op(l.input(), settings);
  }
  if (!line.trace_file.empty()) write_emulated_trace(line, l, report.run, interrupt);
  const EmulationView view{l.scenario, line.tiny, l.program.ranks(), line.precision, report, wrong};
  if (line.json) {
    JsonText out(2);
    out.object();
    write_emulation(out, view);
    out.end();
    console.result(out.take() + "\n");
  } else {
    console.result(emulation_page(view));
  }
  return report.matches ? exit_ok : exit_check_failed;
}

}  // namespace meshweave
