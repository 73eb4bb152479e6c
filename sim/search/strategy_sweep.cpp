#include "sim/search/strategy_sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/base/error.h"
#include "sim/report/report_table.h"

namespace meshweave {
namespace {

using Text = std::back_insert_iterator<std::string>;

struct Titles {
  std::string_view name;  // of the option
  std::string_view title;
  std::string_view key;  // in JSON
};

Titles titles_of(SweepMetric metric) {
  switch (metric) {
    case SweepMetric::time: return {"time", "step time per token", "step_time_per_token_s"};
    case SweepMetric::memory: return {"memory", "peak memory", "peak_memory_bytes"};
    case SweepMetric::bytes: return {"bytes", "received bytes per device and token", "received_bytes_per_token"};
    case SweepMetric::forward_bytes:
      return {"forward-bytes", "received bytes of a layer's forward per device", "layer_forward_received_bytes"};
  }
  bug("unknown metric");
}

std::string_view swept_name(const StrategySweep& sweep) { return sweep.of_micro ? "micro-batch" : "sequence"; }

// The unit in which the largest value has one to three digits.
struct Unit {
  double size = 1;
  std::string_view name;
};

Unit unit_of(const StrategySweep& sweep, SweepMetric metric) {
  double largest = 0;
  for (const std::vector<StrategyRow>& rows : sweep.rows) {
    for (const StrategyRow& row : rows) largest = std::max(largest, value_of(metric, row).value_or(0));
  }
  static const std::vector<Unit> times{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}};
  static const std::vector<Unit> bytes{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}};
  const std::vector<Unit>& units = metric == SweepMetric::time ? times : bytes;
  for (const Unit& unit : units) {
    if (largest >= unit.size) return unit;
  }
  return units.back();
}

// Two values that rounding alone keeps apart are equal: 0.
double logarithmic_distance(double a, double b) {
  const double distance = std::log(a) - std::log(b);
  return std::abs(distance) < 1e-9 ? 0 : distance;
}

// Both strategies at one swept value.
struct PairPoint {
  double x = 0, first = 0, distance = 0;  // value of the first, and how far it lies above the second
};

std::vector<PairPoint> pair_points(const StrategySweep& sweep, SweepMetric metric, std::size_t a, std::size_t b) {
  std::vector<PairPoint> points;
  for (std::size_t v = 0; v < sweep.values.size(); ++v) {
    const std::optional<double> first = value_of(metric, sweep.rows[v][a]);
    const std::optional<double> second = value_of(metric, sweep.rows[v][b]);
    if (!first || !second || *first <= 0 || *second <= 0) continue;
    points.push_back({static_cast<double>(sweep.values[v]), *first, logarithmic_distance(*first, *second)});
  }
  return points;
}

double between(double from, double to, double share) {
  return std::exp(std::log(from) + share * (std::log(to) - std::log(from)));
}

void add_crossovers(std::vector<Crossover>& found, const std::vector<PairPoint>& points, std::size_t a, std::size_t b) {
  std::size_t last = points.size();  // where the two were apart
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].distance == 0) continue;
    if (last < i && (points[last].distance < 0) != (points[i].distance < 0)) {
      Crossover crossover;
      crossover.rising = points[i].distance > 0 ? a : b;
      crossover.falling = points[i].distance > 0 ? b : a;
      if (i - last > 1) {
        crossover.at = points[last + 1].x;
        crossover.metric = points[last + 1].first;
      } else {
        const double share = points[last].distance / (points[last].distance - points[i].distance);
        crossover.at = between(points[last].x, points[i].x, share);
        crossover.metric = between(points[last].first, points[i].first, share);
      }
      found.push_back(crossover);
    }
    last = i;
  }
}

const Strategy& strategy_of(const StrategySweep& sweep, std::size_t s) { return sweep.rows.front()[s].strategy; }

std::string at_text(double at) { return at < 100 ? fmt::format("{:.3g}", at) : fmt::format("{:.0f}", at); }

// Micro-batches are whole.
std::string place_text(const StrategySweep& sweep, double at) {
  if (!sweep.of_micro || at == std::floor(at)) return at_text(at);
  return fmt::format("{:.0f} to {:.0f}", std::floor(at), std::ceil(at));
}

std::string sides_text(const StrategySweep& sweep, const Crossover& c) {
  return fmt::format("{} below {}", strategy_of(sweep, c.falling).name, strategy_of(sweep, c.rising).name);
}

// Why rows are not possible: each reason once, with the strategies that it concerns.
void add_reasons(std::string& out, const StrategySweep& sweep) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const std::vector<StrategyRow>& rows : sweep.rows) {
    for (const StrategyRow& row : rows) {
      if (row.figures) continue;
      const std::string reason = reason_of(row);
      auto found = std::find_if(reasons.begin(), reasons.end(), [&](const auto& each) { return each.first == reason; });
      if (found == reasons.end()) found = reasons.insert(found, {reason, {}});
      std::vector<std::string>& names = found->second;
      if (std::find(names.begin(), names.end(), row.strategy.name) == names.end()) names.push_back(row.strategy.name);
    }
  }
  for (const auto& [reason, names] : reasons) {
    const bool all = names.size() == sweep.rows.front().size();
    fmt::format_to(Text(out), "  {}possible: {}\n",
                   all ? "no strategy is "
                       : fmt::format("{} {}", fmt::join(names, ", "), names.size() == 1 ? "is not " : "are not "),
                   escaped(reason));
  }
}

// Colour and marker of a strategy: the same one in every chart.
std::size_t style_of(const Strategy& strategy, std::size_t factorisations_before) {
  switch (strategy.kind) {
    case StrategyKind::dp: return 0;
    case StrategyKind::tp: return 1;
    case StrategyKind::sp: return 2;
    case StrategyKind::tp_sp: return 3 + factorisations_before % 4;
    case StrategyKind::tsp: return 7;
  }
  bug("unknown strategy");
}

std::string size_text(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return whole >= 4096 && whole % 1024 == 0 ? fmt::format("{}K", whole / 1024) : fmt::format("{}", whole);
}

bool too_large(const StrategyRow& row) { return row.figures->memory.verdict == Verdict::out_of_memory; }

}  // namespace

std::string_view name_of(SweepMetric metric) { return titles_of(metric).name; }

std::optional<SweepMetric> sweep_metric(std::string_view name) {
  for (const SweepMetric metric :
       {SweepMetric::time, SweepMetric::memory, SweepMetric::bytes, SweepMetric::forward_bytes}) {
    if (name == name_of(metric)) return metric;
  }
  return std::nullopt;
}

std::optional<double> value_of(SweepMetric metric, const StrategyRow& row) {
  if (!row.figures) return std::nullopt;
  const StrategyFigures& f = *row.figures;
  switch (metric) {
    case SweepMetric::time: return f.step_time_s / f.tokens();
    case SweepMetric::memory: return static_cast<double>(f.memory.peak_bytes);
    case SweepMetric::bytes: return f.traffic.total() / f.tokens();
    case SweepMetric::forward_bytes: return f.layer.forward_bytes;
  }
  bug("unknown metric");
}

std::vector<Crossover> crossovers(const StrategySweep& sweep, SweepMetric metric) {
  std::vector<Crossover> found;
  for (std::size_t a = 0; a < sweep.rows.front().size(); ++a) {
    for (std::size_t b = a + 1; b < sweep.rows.front().size(); ++b) {
      add_crossovers(found, pair_points(sweep, metric, a, b), a, b);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Crossover& a, const Crossover& b) { return a.at < b.at; });
  return found;
}

std::string sweep_text(const StrategySweep& sweep, SweepMetric metric) {
  const Unit unit = unit_of(sweep, metric);
  const auto in_unit = [&](double value) { return fmt::format("{:.4g}", value / unit.size); };
  std::vector<std::vector<std::string>> lines{
      {fmt::format("  {} ({}) by {}", titles_of(metric).title, unit.name, swept_name(sweep))}};
  for (const std::int64_t value : sweep.values) lines[0].push_back(fmt::format("{}", value));
  bool any_too_large = false;
  for (std::size_t s = 0; s < sweep.rows.front().size(); ++s) {
    lines.push_back({"  " + strategy_of(sweep, s).name});
    for (const std::vector<StrategyRow>& rows : sweep.rows) {
      const std::optional<double> value = value_of(metric, rows[s]);
      std::string text = value ? in_unit(*value) : "-";
      if (value && too_large(rows[s])) text += " *", any_too_large = true;
      lines.back().push_back(std::move(text));
    }
  }
  std::string out = "\n" + aligned_table(lines, 1);
  if (any_too_large) out += "  * does not fit into memory\n";
  add_reasons(out, sweep);
  const std::vector<Crossover> found = crossovers(sweep, metric);
  fmt::format_to(Text(out), "\ncrossovers of {}{}\n", titles_of(metric).title, found.empty() ? ": none" : "");
  std::vector<std::vector<std::string>> places;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Crossover& c = found[i];
    places.push_back({fmt::format("  {}", i + 1), fmt::format("{} {}", swept_name(sweep), place_text(sweep, c.at)),
                      fmt::format("{} {}", in_unit(c.metric), unit.name), sides_text(sweep, c) + " from here on"});
  }
  return out + aligned_table(places, 4);
}

void write_sweep(JsonText& out, const StrategySweep& sweep, SweepMetric metric) {
  out.key("sweep"), out.object();
  out.field("variable", sweep.of_micro ? "micro_batch" : "sequence");
  out.field("metric", titles_of(metric).key);
  out.key("points"), out.array();
  for (std::size_t v = 0; v < sweep.values.size(); ++v) {
    out.object();
    out.field("value", sweep.values[v]);
    write_analysis(out, sweep.rows[v]);
    out.end();
  }
  out.end();
  out.key("crossovers"), out.array();
  for (const Crossover& c : crossovers(sweep, metric)) {
    out.object();
    out.field("at", c.at);
    out.field("metric", c.metric);
    out.field("rising", strategy_of(sweep, c.rising).name);
    out.field("falling", strategy_of(sweep, c.falling).name);
    out.end();
  }
  out.end();
  out.end();
}

Plot sweep_plot(const Scenario& scenario, int devices, const StrategySweep& sweep, SweepMetric metric) {
  Plot plot;
  plot.title = scenario.model[0].shape.zoo.empty() ? scenario.name : scenario.model[0].shape.zoo;
  std::size_t factorisations = 0;
  std::string left_out;
  bool any_too_large = false;
  for (std::size_t s = 0; s < sweep.rows.front().size(); ++s) {
    const Strategy& strategy = strategy_of(sweep, s);
    PlotLine line;
    line.name = strategy.name;
    line.detail = strategy.layout;
    line.style = style_of(strategy, strategy.kind == StrategyKind::tp_sp ? factorisations++ : 0);
    for (std::size_t v = 0; v < sweep.values.size(); ++v) {
      const StrategyRow& row = sweep.rows[v][s];
      const std::optional<double> value = value_of(metric, row);
      if (!value || *value <= 0) continue;
      line.points.push_back({static_cast<double>(sweep.values[v]), *value, too_large(row)});
      any_too_large |= too_large(row);
    }
    if (line.points.empty())
      left_out += (left_out.empty() ? "" : ", ") + strategy.name;
    else
      plot.lines.push_back(std::move(line));
  }
  const Unit unit = unit_of(sweep, metric);
  const std::vector<Crossover> found = crossovers(sweep, metric);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Crossover& c = found[i];
    plot.marks.push_back({c.at, c.metric / unit.size, fmt::format("{}", i + 1),
                          fmt::format("{} from {} {}", sides_text(sweep, c), swept_name(sweep), at_text(c.at))});
  }
  for (PlotLine& line : plot.lines) {
    for (PlotPoint& point : line.points) point.y /= unit.size;
  }
  const ModuleLayout& layout = scenario.layout_by_module[0];
  const std::string fixed = sweep.of_micro ? fmt::format("sequence {}", scenario.model[0].shape.sequence)
                                           : fmt::format("micro-batch {}", scenario.batch.micro);
  plot.title = fmt::format("{}: {}", plot.title, titles_of(metric).title);
  plot.subtitle = fmt::format(
      "D = {} devices of {}, pp {}, dp {}, {}, {}", devices, scenario.cluster.node.device.name, layout.pp, layout.dp,
      fixed, scenario.pass == Pass::train ? fmt::format("recompute {}", name_of(layout.recompute)) : "forward only");
  plot.x_title = sweep.of_micro ? "micro-batch (samples)" : "sequence (tokens)";
  plot.y_title = fmt::format("{} ({})", titles_of(metric).title, unit.name);
  for (const std::int64_t value : sweep.values) plot.x_ticks.push_back(static_cast<double>(value));
  plot.x_text = size_text;
  std::vector<std::string> notes;
  if (any_too_large) notes.emplace_back("Hollow markers: does not fit into memory.");
  if (!left_out.empty()) notes.push_back(fmt::format("Not drawn, as zero or not possible: {}.", left_out));
  if (!found.empty()) notes.emplace_back("Numbers: crossovers, interpolated between the points.");
  plot.note = fmt::format("{}", fmt::join(notes, "  "));
  return plot;
}

}  // namespace meshweave
