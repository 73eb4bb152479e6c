#include "sim/cli/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "sim/base/error.h"
#include "sim/cli/console.h"
#include "sim/report/report_json.h"
#include "sim/report/report_table.h"
#include "sim/scenario/json_document.h"

namespace meshweave {
namespace {

void write_vary(JsonText& out, const SweepPoint& point) {
  if (point.vary.empty()) return;
  out.key("vary"), out.object();
  for (const auto& [pointer, value] : point.vary) {
    JsonError ignored;  // what is no JSON is a string, as the reader takes it
    const std::optional<Json> json = parse_json(value, ignored);
    out.key(pointer);
    if (json)
      out.raw(format_json(*json));
    else
      out.string(value);
  }
  out.end();
}

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

std::string_view last_token(std::string_view pointer) { return pointer.substr(pointer.rfind('/') + 1); }

// With the key before it: "cp/degree".
std::string_view last_tokens(std::string_view pointer) {
  const std::size_t last = pointer.rfind('/');
  return last == 0 ? pointer : pointer.substr(pointer.rfind('/', last - 1) + 1);
}

// Columns that tell the rows apart: the file where there are several, then the varied values.
std::vector<std::string> point_header(const std::vector<SweepRow>& rows, bool with_path) {
  std::vector<std::string> header;
  if (with_path) header.emplace_back("scenario");
  const auto& varied = rows.front().point.vary;
  for (const auto& [pointer, value] : varied) {
    const auto same = [&](const auto& other) { return last_token(other.first) == last_token(pointer); };
    header.emplace_back(std::count_if(varied.begin(), varied.end(), same) > 1 ? last_tokens(pointer)
                                                                              : last_token(pointer));
  }
  return header;
}

std::string refusals(const std::vector<SweepRow>& rows) {
  std::map<std::string, int> reasons;
  int count = 0;
  for (const SweepRow& row : rows) {
    if (row.ran()) continue;
    ++count;
    const Diagnostic& first = row.refused.front();
    ++reasons[first.pointer.empty() ? first.message : first.pointer + ": " + first.message];
  }
  if (count == 0) return {};
  std::string out = fmt::format("{} of {} {} not possible:\n", count,
                                count_text(static_cast<std::int64_t>(rows.size()), "point"), count == 1 ? "is" : "are");
  for (const auto& [reason, times] : reasons) out += fmt::format("  {} × {}\n", times, escaped(reason));
  return out;
}

}  // namespace

std::vector<SweepRow> sweep(const std::vector<SweepPoint>& points, const SweepSettings& settings) {
  std::vector<std::optional<SweepRow>> rows(points.size());
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};
  std::mutex failure_mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < points.size(); i = next++) {
      try {
        rows[i] = run_point(points[i], settings);
      } catch (const Interrupted&) {
        next = points.size();
        return;
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
        next = points.size();
        return;
      }
      const std::size_t finished = ++done;
      if (settings.on_progress) settings.on_progress(finished, points.size(), points[i].path);
    }
  };
  const std::size_t processors = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t wanted = settings.jobs > 0 ? static_cast<std::size_t>(settings.jobs) : processors;
  std::vector<std::thread> workers;
  for (std::size_t i = 1; i < std::min(wanted, points.size()); ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  if (failure) std::rethrow_exception(failure);
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

std::string sweep_table(const std::vector<SweepRow>& rows) {
  if (rows.empty()) return {};
  const bool with_path = std::any_of(rows.begin(), rows.end(),
                                     [&](const SweepRow& row) { return row.point.path != rows.front().point.path; }) ||
                         rows.front().point.vary.empty();
  std::set<std::string> published;
  for (const SweepRow& row : rows) {
    for (const auto& [key, text] : row.published) published.insert(key);
  }
  std::vector<std::vector<std::string>> table{point_header(rows, with_path)};
  const std::size_t left_columns = with_path ? 2 : 0;
  if (with_path) {
    for (const char* name : {"layout", "micro-batch", "recompute"}) table[0].emplace_back(name);
  }
  for (const char* name :
       {"ranks", "step time", "tokens/s", "TFLOP/s/GPU", "MFU", "HFU", "bubble", "exposed", "host", "peak memory"}) {
    table[0].emplace_back(name);
  }
  for (const std::string& key : published) table[0].push_back("published " + metric_title(key));
  table[0].emplace_back("verdict");
  for (const SweepRow& row : rows) {
    if (!row.ran()) continue;
    const Report& r = row.report;
    std::vector<std::string> cells;
    if (with_path) cells = {row.point.path};
    for (const auto& [pointer, value] : row.point.vary) cells.push_back(value);
    if (with_path) cells.insert(cells.end(), {row.layout, row.micro_batch, row.recompute});
    cells.push_back(fmt::format("{}", r.ranks));
    cells.push_back(seconds_text(r.step_time_s));
    cells.push_back(tokens_text(r.tokens_per_s));
    cells.push_back(fmt::format("{:.1f}", r.tflops_per_gpu));
    cells.push_back(percent_text(r.mfu));
    cells.push_back(percent_text(r.hfu));
    cells.push_back(percent_text(r.bubble_fraction()));
    cells.push_back(percent_text(r.exposed_comm_fraction()));
    cells.push_back(percent_text(r.mean.host_s / r.step_time_s));
    cells.push_back(bytes_text(static_cast<double>(r.memory.peak_bytes)));
    for (const std::string& key : published) {
      const auto found = row.published.find(key);
      cells.push_back(found == row.published.end() ? "" : found->second);
    }
    cells.emplace_back(name_of(r.memory.verdict));
    table.push_back(std::move(cells));
  }
  const std::string refused = refusals(rows);
  if (table.size() == 1) return refused;
  return aligned_table(table, left_columns) + (refused.empty() ? "" : "\n" + refused);
}

std::string sweep_json(const std::vector<SweepRow>& rows) {
  std::string out = "[";
  for (const SweepRow& row : rows) {
    out += out.size() > 1 ? ",\n" : "\n";
    if (row.ran()) {
      out += row.json;
      continue;
    }
    JsonText refused;
    refused.object();
    refused.field("scenario", row.point.path);
    write_vary(refused, row.point);
    refused.key("errors"), refused.raw(diagnostics_json(row.refused));
    refused.end();
    out += refused.text();
  }
  return out + "\n]\n";
}

}  // namespace meshweave
