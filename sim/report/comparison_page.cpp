#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/report/comparison.h"
#include "sim/report/report_table.h"

namespace meshweave {
namespace {

using Text = std::back_insert_iterator<std::string>;
using Rows = std::vector<std::vector<std::string>>;

std::string time_text(Picoseconds time) { return seconds_text(seconds_from_picoseconds(time)); }
std::string change_text(Picoseconds time) { return (time.count() > 0 ? "+" : "") + time_text(time); }

// "+1.2", "-0.3", "0.0"
std::string signed_text(double value) {
  const std::string text = fmt::format("{:+.1f}", value);
  return text == "-0.0" || text == "+0.0" ? "0.0" : text;
}

std::string title_of(std::string_view key) {
  if (key == "gpus") return "GPUs";
  if (key == "global_batch") return "global batch";
  if (key == "micro_batches") return "micro-batches";
  if (key == "tflops_per_gpu") return "TFLOP/s per GPU";
  if (key == "exposed_comm_fraction") return "exposed comm";
  return metric_title(key);
}

bool is_count(std::string_view key) { return key == "gpus" || key == "global_batch" || key == "micro_batches"; }

std::string value_text(std::string_view key, std::optional<double> value) {
  if (!value) return "-";
  if (is_count(key)) return fmt::format("{:.0f}", *value);
  if (key == "tflops_per_gpu") return fmt::format("{:.1f}", *value);
  return metric_text(key, *value);
}

std::string change_text(const HeadlinePair& pair) {
  if (!pair.a || !pair.b) return "";
  const double change = *pair.b - *pair.a;
  if (change == 0) return "same";
  if (pair.key == "mfu" || pair.key.ends_with("_fraction")) return signed_text(100 * change) + " points";
  if (*pair.a == 0) return "";
  if (is_count(pair.key)) return fmt::format("× {:.4g}", *pair.b / *pair.a);
  return signed_text(100 * (*pair.b / *pair.a - 1)) + " %";
}

void run_head(std::string& out, std::string_view letter, const ComparedRun& run) {
  const std::string kind = run.from_trace ? "trace " : "";
  fmt::format_to(Text(out), "{}  {} ({}{})\n", letter, escaped(run.name.empty() ? "a run" : run.name), kind,
                 escaped(run.file));
  if (!run.scenario) {
    fmt::format_to(Text(out), "  {}; its scenario is not known\n", escaped(run.executor));
    return;
  }
  out += scenario_text(*run.scenario, run.scenario->cluster.ranks(), escaped(run.executor));
  const std::int64_t missing = run.scenario->cluster.ranks() - run.parts.mean.ranks;
  if (missing > 0) {
    fmt::format_to(Text(out), "  all below without {} that the trace does not hold\n", count_text(missing, "rank"));
  }
}

std::string verdict_text(const ComparedRun& run) {
  if (!run.scenario) return "";
  return std::string(name_of(verdict_of(run.parts.mean.peak_memory_bytes, run.scenario->cluster.node.device)));
}

void headlines(std::string& out, const Comparison& c) {
  Rows rows{{"", "A", "B", "change"}};
  for (const HeadlinePair& pair : c.headlines) {
    rows.push_back(
        {"  " + title_of(pair.key), value_text(pair.key, pair.a), value_text(pair.key, pair.b), change_text(pair)});
    if (pair.key == "peak_memory_bytes") rows.push_back({"  verdict", verdict_text(c.a), verdict_text(c.b), ""});
  }
  out += "\n" + aligned_table(rows, 1);
}

std::string cut(const std::string& text) {
  constexpr std::size_t most = 48;
  if (text.empty()) return "-";
  if (text.size() <= most) return text;
  std::size_t end = most - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
  return text.substr(0, end) + "…";
}

void settings(std::string& out, const Comparison& c) {
  if (!c.settings) {
    out += "\nsettings that differ: not known, a trace does not tell its scenario\n";
    return;
  }
  if (c.settings->empty()) {
    out += "\nno setting differs\n";
  } else {
    constexpr std::size_t most = 24;
    Rows rows{{"settings that differ", "A", "B"}};
    for (std::size_t i = 0; i < std::min(most, c.settings->size()); ++i) {
      rows.push_back({"  " + (*c.settings)[i].pointer, cut((*c.settings)[i].a), cut((*c.settings)[i].b)});
    }
    out += "\n" + aligned_table(rows, 3);
    if (c.settings->size() > most)
      fmt::format_to(Text(out), "  and {} more, which --json lists\n", c.settings->size() - most);
  }
  if (c.a.executor != c.b.executor) {
    fmt::format_to(Text(out), "  A is of the executor {}, B of {}: a part of the change may come of that\n",
                   escaped(c.a.executor), escaped(c.b.executor));
  }
}

std::string part_title(const PartKey& key) {
  switch (key.part) {
    case PartKind::compute: return key.op.empty() ? "compute" : "compute " + key.op;
    case PartKind::recompute: return key.op.empty() ? "recompute" : "recompute " + key.op;
    case PartKind::optimizer: return "optimizer";
    case PartKind::exposed: return key.op.empty() ? "exposed comm" : "exposed " + key.stream + " " + key.op;
    case PartKind::boundary: return "exposed boundary comm";
    case PartKind::bubble: return "bubble";
    case PartKind::host: return "host-bound";
    case PartKind::copy: return "copies";
  }
  return {};
}

// Rows of a part in both runs.
class PartTable {
 public:
  explicit PartTable(Picoseconds step_of_a) : step_of_a_(step_of_a) {}

  void title(std::string text) {
    if (!rows_.empty()) rows_.emplace_back();
    rows_.push_back({std::move(text), "A", "B", "change", "of A's step"});
  }
  void row(std::string title, Picoseconds a, Picoseconds b) {
    const double share = static_cast<double>((b - a).count()) / static_cast<double>(step_of_a_.count());
    rows_.push_back(
        {"  " + std::move(title), time_text(a), time_text(b), change_text(b - a), signed_text(100 * share) + " %"});
  }
  void row(const PartChange& part) { row(part_title(part.key), part.a, part.b); }
  std::string text() const { return "\n" + aligned_table(rows_, 1); }

 private:
  Picoseconds step_of_a_;
  Rows rows_;
};

// Changes of less than 0.001 % of the step, as the nanoseconds of a trace file make them, are not listed.
bool is_small(const PartChange& part, const Comparison& c) {
  return std::abs(part.change().count()) <= c.a.parts.step.count() / 100'000;
}

void parts(std::string& out, const Comparison& c) {
  if (is_small(c.parts.front(), c)) {
    out += c.parts.front().change().count() == 0 ? "\nno part of the step differs\n"
                                                 : "\nno part of the step differs by more than 0.001 % of it\n";
    return;
  }
  PartTable table(c.a.parts.step);
  table.title("where the change comes from (mean over ranks)");
  for (const PartChange& part : c.groups) {
    if (part.a.count() != 0 || part.b.count() != 0) table.row(part);
  }
  table.row("step time", c.a.parts.step, c.b.parts.step);

  table.title("in detail");
  constexpr std::size_t most = 16;
  std::size_t listed = 0;
  while (listed < std::min(most, c.parts.size()) && !is_small(c.parts[listed], c)) table.row(c.parts[listed++]);
  Picoseconds rest_a{0}, rest_b{0};
  for (std::size_t i = listed; i < c.parts.size(); ++i) rest_a += c.parts[i].a, rest_b += c.parts[i].b;
  if (listed < c.parts.size()) {
    table.row(count_text(static_cast<std::int64_t>(c.parts.size() - listed), "other part"), rest_a, rest_b);
  }
  table.row("step time", c.a.parts.step, c.b.parts.step);
  out += table.text();
}

// Per stage: A, B and, where both have it, the change. Columns without time are left out.
void stages(std::string& out, const Comparison& c) {
  const std::vector<StageChange> matched = match_stages(c.a.parts, c.b.parts);
  std::vector<PartKind> kinds;
  for (const PartChange& group : c.groups) {
    if (group.a.count() != 0 || group.b.count() != 0) kinds.push_back(group.key.part);
  }
  std::sort(kinds.begin(), kinds.end());
  Rows rows{{"stages", "", "ranks"}};
  for (const PartKind kind : kinds) rows[0].push_back(part_title({kind, {}, {}}));
  rows[0].emplace_back("peak memory");
  const auto row_of = [&](std::string title, std::string_view letter, const PartMeans& mean) {
    rows.push_back({std::move(title), std::string(letter), fmt::format("{}", mean.ranks)});
    for (const PartKind kind : kinds) rows.back().push_back(time_text(mean.of(kind)));
    rows.back().push_back(bytes_text(static_cast<double>(mean.peak_memory_bytes)));
  };
  for (const StageChange& stage : matched) {
    std::string title = fmt::format("  {} {}", stage.module, stage.stage);
    if (stage.a != nullptr) row_of(title, "A", *stage.a);
    if (stage.b != nullptr) row_of(stage.a != nullptr ? "" : title, "B", *stage.b);
    if (stage.a == nullptr || stage.b == nullptr) continue;
    rows.push_back({"", "B − A", ""});
    for (const PartKind kind : kinds) rows.back().push_back(change_text(stage.b->of(kind) - stage.a->of(kind)));
    const std::int64_t bytes = stage.b->peak_memory_bytes - stage.a->peak_memory_bytes;
    rows.back().push_back((bytes > 0 ? "+" : "") + bytes_text(static_cast<double>(bytes)));
  }
  out += "\n" + aligned_table(rows, 2);
}

}  // namespace

std::string comparison_page(const Comparison& comparison) {
  std::string out;
  run_head(out, "A", comparison.a);
  run_head(out, "B", comparison.b);
  headlines(out, comparison);
  settings(out, comparison);
  parts(out, comparison);
  stages(out, comparison);
  return out;
}

}  // namespace meshweave
