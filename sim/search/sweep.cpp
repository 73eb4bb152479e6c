#include "sim/search/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "sim/base/error.h"
#include "sim/base/parallel_for.h"
#include "sim/report/report_json.h"
#include "sim/report/report_table.h"

namespace meshweave {
namespace {

// The settings of the run that its table shows, and what is published about it.
void describe(SweepRow& row, const RunOutcome& outcome) {
  const Scenario& scenario = outcome.scenario;
  const std::size_t sink = sink_module(scenario.model);
  for (const ModuleLayout& layout : scenario.layout_by_module) {
    row.layout += (row.layout.empty() ? "" : "; ") + degrees_text(layout);
  }
  row.micro_batch = fmt::format("{}", scenario.batch.micro);
  row.recompute = name_of(scenario.layout_by_module[sink].recompute);
  if (!scenario.published) return;
  for (const auto& [key, value] : scenario.published->values) {
    row.published[key] = published_text(scenario, outcome.report, key);
  }
}

SweepRow run_point(const SweepPoint& point, const SweepSettings& settings) {
  SweepRow row;
  row.point = point;
  try {
    RunOutcome outcome = read_and_run(point.path, point.overrides, settings.run);
    JsonText out(2);
    out.object();
    write_report(out, outcome.view(), outcome.report);
    write_vary(out, point);
    if (settings.write_timing) settings.write_timing(out, outcome);
    out.end();
    row.json = out.take();
    describe(row, outcome);
    row.report = std::move(outcome.report);
    row.report.by_class.clear();
  } catch (const InputError& error) {
    row.refused = error.diagnostics();
  } catch (const IoError& error) {
    Diagnostic diagnostic;
    diagnostic.message = error.what();
    row.refused = {diagnostic};
    row.unreadable = true;
  }
  return row;
}

}  // namespace

std::vector<SweepRow> sweep(const std::vector<SweepPoint>& points, const SweepSettings& settings) {
  std::vector<std::optional<SweepRow>> rows(points.size());
  std::atomic<std::size_t> done{0};
  try {
    parallel_for(points.size(), thread_count(settings.jobs), [&](std::size_t i) {
      rows[i] = run_point(points[i], settings);
      const std::size_t finished = ++done;
      if (settings.on_progress) settings.on_progress(finished, points.size(), points[i].path);
    });
  } catch (const Interrupted&) {  // what is finished by then is the result
  }
  std::vector<SweepRow> finished;
  for (std::optional<SweepRow>& row : rows) {
    if (row) finished.push_back(std::move(*row));
  }
  return finished;
}

void sort_by_step_time(std::vector<SweepRow>& rows) {
  const auto group = [](const SweepRow& row) {
    if (!row.ran()) return 2;
    return row.report.memory.verdict == Verdict::out_of_memory ? 1 : 0;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const SweepRow& a, const SweepRow& b) {
    if (group(a) != group(b)) return group(a) < group(b);
    return a.ran() && a.report.step_time_s < b.report.step_time_s;
  });
}

}  // namespace meshweave
