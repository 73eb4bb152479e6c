#include "sim/cli/analyze_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "sim/base/atomic_file.h"
#include "sim/base/parallel_for.h"
#include "sim/scenario/input_file.h"
#include "sim/search/pipeline.h"
#include "sim/search/strategy_sweep.h"

namespace meshweave {
namespace {

namespace fs = std::filesystem;

void check_plot_file(const CommandLine& line, const Scenario& scenario) {
  const std::string& file = line.analyze.plot_file;
  for (const auto& [input, hash] : scenario.inputs) {
    std::error_code ignored;  // of files that do not exist
    if (!fs::equivalent(file, input, ignored)) continue;
    throw UsageError(
        fmt::format("--plot: {} is {}", file, input == line.targets.front() ? "the scenario" : "read by the scenario"),
        "for example --plot strategies.svg");
  }
  file_to_replace(file);
}

// One strategy at one swept value.
struct Point {
  Strategy strategy;
  std::string what;  // for the line of progress
};

class Analysis {
 public:
  Analysis(const CommandLine& line, Console& console, const InterruptFlag& interrupt)
      : line_(line),
        console_(console),
        interrupt_(interrupt),
        text_(read_text_file(line.targets.front())),
        base_(parse_scenario(text_, line.targets.front(), line.overrides)) {}

  ExitCode run() {
    if (!line_.analyze.plot_file.empty()) check_plot_file(line_, base_);
    StrategySettings settings;
    settings.devices = line_.analyze.devices;
    const int devices = settings.devices > 0 ? settings.devices : devices_of(base_);
    std::vector<Point> points;
    const auto add = [&](const StrategySettings& at, const std::string& where) {
      for (Strategy& strategy : strategies(base_, at)) {
        std::string what = strategy.name + where;
        points.push_back({std::move(strategy), std::move(what)});
      }
    };
    add(settings, "");
    const std::size_t count = points.size();
    StrategySweep sweep = swept();
    for (const std::int64_t value : sweep.values) {
      StrategySettings at = settings;
      (sweep.of_micro ? at.micro : at.sequence) = value;
      add(at, fmt::format(", {} {}", sweep.of_micro ? "micro-batch" : "sequence", value));
    }
    std::vector<StrategyRow> all = simulate(points);
    const auto first = all.begin();
    const std::vector<StrategyRow> rows(first, first + static_cast<std::ptrdiff_t>(count));
    for (std::size_t v = 1; v <= sweep.values.size(); ++v) {
      const auto begin = first + static_cast<std::ptrdiff_t>(v * count);
      sweep.rows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
    }
    return print(devices, rows, sweep);
  }

 private:
  // The values that are asked for: with --plot alone, sequences of 8K to 128K.
  StrategySweep swept() const {
    const AnalyzeOptions& options = line_.analyze;
    StrategySweep sweep;
    sweep.of_micro = !options.micro.empty();
    sweep.values = sweep.of_micro ? options.micro : options.sequence;
    if (sweep.values.empty() && !options.plot_file.empty()) sweep.values = {8192, 16384, 32768, 65536, 131072};
    return sweep;
  }

  StrategyFigures simulate(const Strategy& strategy) const {
    RunSettings settings;
    settings.interrupt = &interrupt_;
    std::vector<Override> overrides = line_.overrides;
    overrides.insert(overrides.end(), strategy.change.begin(), strategy.change.end());
    const RunOutcome run = parse_and_run(text_, line_.targets.front(), overrides, settings);
    return figures_of(run.view(), run.report);
  }

  // In the order of the points, whatever thread takes which.
  std::vector<StrategyRow> simulate(const std::vector<Point>& points) {
    std::vector<StrategyRow> rows(points.size());
    std::atomic<std::size_t> done{0};
    parallel_for(points.size(), thread_count(line_.jobs), [&](std::size_t i) {
      rows[i] = analyze_strategy(points[i].strategy, [&](const Strategy& strategy) { return simulate(strategy); });
      console_.progress(fmt::format("[{}/{}] {}", ++done, points.size(), points[i].what));
    });
    return rows;
  }

  ExitCode print(int devices, const std::vector<StrategyRow>& rows, const StrategySweep& sweep) {
    const auto ran = [](const StrategyRow& row) { return row.figures.has_value(); };
    if (std::none_of(rows.begin(), rows.end(), ran)) {
      console_.errors(rows.front().refused);
      return exit_bad_input;
    }
    const SweepMetric metric = line_.analyze.metric;
    if (line_.json) {
      JsonText out(2);
      out.object();
      out.field("name", base_.name);
      out.field("scenario", base_.file);
      out.field("devices", devices);
      write_analysis(out, rows);
      if (!sweep.values.empty()) write_sweep(out, sweep, metric);
      out.end();
      console_.result(out.take() + "\n");
    } else {
      console_.result(analysis_page(base_, devices, rows));
      if (!sweep.values.empty()) console_.result(sweep_text(sweep, metric));
    }
    if (!line_.analyze.plot_file.empty()) draw(devices, sweep, metric);
    return exit_ok;
  }

  void draw(int devices, const StrategySweep& sweep, SweepMetric metric) {
    const Plot plot = sweep_plot(base_, devices, sweep, metric);
    if (plot.lines.empty()) throw InputError("no strategy is possible at any of the swept values: nothing to draw");
    check_interrupt(&interrupt_);
    AtomicFile file(line_.analyze.plot_file);
    file.write(svg_text(plot));
    file.commit();
  }

  const CommandLine& line_;
  Console& console_;
  const InterruptFlag& interrupt_;
  const std::string text_;  // read once: standard input gives its text only once
  const Scenario base_;
};

}  // namespace

ExitCode analyze_command(const CommandLine& line, Console& console, const InterruptFlag& interrupt) {
  return Analysis(line, console, interrupt).run();
}

}  // namespace meshweave
