#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "sim/report/report_table.h"
#include "sim/search/analysis.h"

namespace meshweave {
namespace {

using Text = std::back_insert_iterator<std::string>;
using Cells = std::vector<std::string>;

// `parts` in units of 10 MB, rounded so that they add up to their rounded sum: each is rounded down, and those that
// lose most are rounded up.
std::vector<std::int64_t> rounded_parts(const std::vector<std::int64_t>& parts) {
  constexpr std::int64_t unit = 10'000'000;
  const std::int64_t sum = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  std::vector<std::int64_t> rounded;
  for (const std::int64_t part : parts) rounded.push_back(part / unit);
  std::int64_t missing = (sum + unit / 2) / unit - std::accumulate(rounded.begin(), rounded.end(), std::int64_t{0});
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return parts[a] % unit > parts[b] % unit; });
  for (const std::size_t i : order) {
    if (missing-- <= 0) break;
    ++rounded[i];
  }
  return rounded;
}

std::string gigabytes(std::int64_t hundredths) { return fmt::format("{:.2f}", static_cast<double>(hundredths) / 100); }
std::string gigabytes(double bytes) { return bytes == 0 ? "0" : fmt::format("{:.3f}", bytes * 1e-9); }
std::string megabytes(double bytes) { return bytes == 0 ? "0" : fmt::format("{:.1f}", bytes * 1e-6); }
std::string teraflops(double flops) { return fmt::format("{:.4g}", flops * 1e-12); }

// One line per strategy that ran; `cells` are those behind its name.
template <class CellsOf>
void table(std::string& out, const std::string& title, const Cells& header, const std::vector<StrategyRow>& rows,
           const CellsOf& cells) {
  std::vector<Cells> lines{{"  " + title}};
  lines[0].insert(lines[0].end(), header.begin(), header.end());
  for (const StrategyRow& row : rows) {
    if (!row.figures) continue;
    lines.push_back({"  " + row.strategy.name});
    const Cells more = cells(row);
    lines.back().insert(lines.back().end(), more.begin(), more.end());
  }
  out += "\n" + aligned_table(lines, 1);
}

void head(std::string& out, const Scenario& s, int devices, const std::vector<StrategyRow>& rows) {
  out += escaped(s.name.empty() ? s.file : s.name);
  const ModuleLayout& layout = s.layout_by_module[0];
  fmt::format_to(Text(out), "\n  strategies on D = {} devices of {}; pp {}, dp {}", devices,
                 escaped(s.cluster.node.device.name), layout.pp, layout.dp);
  if (s.pass == Pass::train) {
    if (layout.zero > 0) fmt::format_to(Text(out), ", ZeRO-{}", layout.zero);
    fmt::format_to(Text(out), ", recompute {}", name_of(layout.recompute));
  } else {
    out += ", forward only";
  }
  const auto ran =
      std::find_if(rows.begin(), rows.end(), [](const StrategyRow& row) { return row.figures.has_value(); });
  if (ran != rows.end()) {
    fmt::format_to(Text(out), ", {}\n  micro-batch {}, sequence {}", count_text(ran->figures->ranks, "rank"),
                   ran->figures->micro_batch, ran->figures->sequence);
  }
  out += ", analytic; counted on the executed programs\n";
}

void times(std::string& out, const std::vector<StrategyRow>& rows) {
  std::vector<Cells> lines{{"  strategy", "layout", "batch", "step time", "per token", "tokens/s", "exposed comm",
                            "of step", "host-bound", "peak memory", "verdict"}};
  for (const StrategyRow& row : rows) {
    if (!row.figures) continue;
    const StrategyFigures& f = *row.figures;
    lines.push_back({"  " + row.strategy.name, row.strategy.layout, fmt::format("{}", f.global_batch),
                     seconds_text(f.step_time_s), seconds_text(f.step_time_s / f.tokens()),
                     tokens_text(f.tokens() / f.step_time_s), seconds_text(f.exposed_total_s()),
                     percent_text(f.exposed_total_s() / f.step_time_s), percent_text(f.host_s / f.step_time_s),
                     bytes_text(static_cast<double>(f.memory.peak_bytes)), std::string(name_of(f.memory.verdict))});
  }
  out += "\n" + aligned_table(lines, 2);
}

void memory(std::string& out, const std::vector<StrategyRow>& rows) {
  static const Cells names{"parameters", "gradients", "optimizer", "activations",
                           "boundary",   "comm",      "workspace", "framework"};
  const auto parts_of = [](const StrategyRow& row) {
    const MemoryReport& m = row.figures->memory;
    std::vector<std::int64_t> parts(m.by_category.begin(), m.by_category.end());
    parts.push_back(m.framework_bytes);
    return parts;
  };
  std::vector<std::size_t> used;
  Cells header;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto uses = [&](const StrategyRow& row) { return row.figures && parts_of(row)[i] > 0; };
    if (std::none_of(rows.begin(), rows.end(), uses)) continue;
    used.push_back(i);
    header.push_back(names[i]);
  }
  header.emplace_back("total");
  header.emplace_back("states, closed form");
  table(out, "memory at the peak, GB", header, rows, [&](const StrategyRow& row) {
    const std::vector<std::int64_t> rounded = rounded_parts(parts_of(row));
    Cells cells;
    for (const std::size_t i : used) cells.push_back(gigabytes(rounded[i]));
    cells.push_back(gigabytes(std::accumulate(rounded.begin(), rounded.end(), std::int64_t{0})));
    cells.push_back(fmt::format("{:.2f}", row.figures->states_form * 1e-9));
    return cells;
  });
}

std::string words(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text == "point-to-point" ? "p2p" : text;
}

// Columns of the kinds or purposes that any strategy uses, and their sum.
template <class Keys>
void traffic(std::string& out, const std::string& title, const Keys& keys, const std::vector<StrategyRow>& rows) {
  std::vector<typename Keys::value_type> used;
  for (const auto key : keys) {
    const auto uses = [&](const StrategyRow& row) { return row.figures && row.figures->traffic.of(key) > 0; };
    if (std::any_of(rows.begin(), rows.end(), uses)) used.push_back(key);
  }
  Cells header;
  for (const auto key : used) header.push_back(words(name_of(key)));
  header.emplace_back("total");
  header.emplace_back("per token");
  table(out, title, header, rows, [&](const StrategyRow& row) {
    const Traffic& t = row.figures->traffic;
    Cells cells;
    for (const auto key : used) cells.push_back(gigabytes(t.of(key)));
    cells.push_back(gigabytes(t.total()));
    cells.push_back(bytes_text(t.total() / row.figures->tokens()));
    return cells;
  });
}

void exposed(std::string& out, const std::vector<StrategyRow>& rows) {
  std::vector<Purpose> used;
  for (const Purpose purpose : all_purposes) {
    const auto p = static_cast<std::size_t>(purpose);
    const auto uses = [&](const StrategyRow& row) { return row.figures && row.figures->exposed_s[p] > 0; };
    if (std::any_of(rows.begin(), rows.end(), uses)) used.push_back(purpose);
  }
  Cells header;
  for (const Purpose purpose : used) header.emplace_back(name_of(purpose));
  header.emplace_back("total");
  table(out, "exposed communication", header, rows, [&](const StrategyRow& row) {
    Cells cells;
    for (const Purpose p : used) cells.push_back(seconds_text(row.figures->exposed_s[static_cast<std::size_t>(p)]));
    cells.push_back(seconds_text(row.figures->exposed_total_s()));
    return cells;
  });
}

void layers(std::string& out, const std::vector<StrategyRow>& rows) {
  table(out, "received by a layer, MB", {"forward", "closed form", "backward", "closed form"}, rows,
        [](const StrategyRow& row) {
          const LayerWork& executed = row.figures->layer;
          const LayerWork& form = row.figures->layer_form;
          return Cells{megabytes(executed.forward_bytes), megabytes(form.forward_bytes),
                       megabytes(executed.backward_bytes), megabytes(form.backward_bytes)};
        });
  table(out, "TFLOP of a layer",
        {"forward", "closed form", "backward", "closed form", "whole step", "per token, GFLOP"}, rows,
        [](const StrategyRow& row) {
          const LayerWork& executed = row.figures->layer;
          const LayerWork& form = row.figures->layer_form;
          return Cells{teraflops(executed.forward_flops),
                       teraflops(form.forward_flops),
                       teraflops(executed.backward_flops),
                       teraflops(form.backward_flops),
                       teraflops(row.figures->flops),
                       fmt::format("{:.2f}", row.figures->flops / row.figures->tokens() * 1e-9)};
        });
}

void remarks(std::string& out, const std::vector<StrategyRow>& rows) {
  std::string text;
  for (const StrategyRow& row : rows) {
    if (!row.figures)
      fmt::format_to(Text(text), "  {} is not possible: {}\n", row.strategy.name, escaped(reason_of(row)));
    for (const std::string& note : row.strategy.notes)
      fmt::format_to(Text(text), "  {}: {}\n", row.strategy.name, note);
  }
  if (!text.empty()) out += "\n" + text;
}

constexpr std::string_view legend = R"(
Bytes and FLOPs are per device, means over the ranks, of a step or of a layer and micro-batch. Bytes are those received:
all-gather, reduce-scatter, all-to-all N(D−1)/D, all-reduce 2N(D−1)/D, broadcast and reduce over all owners N(D−1)/D.
Memory is the fullest rank's. "per token" divides by the tokens of the step, "exposed" is a mean over the ranks.
Closed forms (arXiv 2604.26294; the backward derived): X = B·S·h·β, P = (2 + 2/g + 3F)·h² weights of a layer
  forward   TP 4X(T−1)/T   SP (2/g)X(Σ−1)/Σ   TP+SP 4(X/Σ)(T−1)/T + (2/g)(X/T)(Σ−1)/Σ   TSP (P·β + (2/g)X)(D−1)/D
  states    b·W/T of the layers' weights W (D for T of TSP), activations A/Σ (D for Σ of TSP)
)";

}  // namespace

std::string analysis_page(const Scenario& scenario, int devices, const std::vector<StrategyRow>& rows) {
  std::string out;
  head(out, scenario, devices, rows);
  times(out, rows);
  memory(out, rows);
  traffic(out, "received by kind, GB", all_transfer_kinds, rows);
  traffic(out, "received by purpose, GB", all_purposes, rows);
  exposed(out, rows);
  layers(out, rows);
  remarks(out, rows);
  out += legend;
  return out;
}

}  // namespace meshweave
