// What a sweep prints.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "sim/report/diagnostics_json.h"
#include "sim/report/report_table.h"
#include "sim/scenario/json_document.h"
#include "sim/search/sweep.h"

namespace meshweave {
namespace {

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
