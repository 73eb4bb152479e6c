#include "sim/report/report_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>

namespace meshweave {
namespace {

using Text = std::back_insert_iterator<std::string>;

// Columns that a terminal needs for UTF-8 text (one per code point).
std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xc0u) != 0x80u;
  return width;
}

std::string published_note(const RunView& run, const Report& report, std::string_view key) {
  const std::string text = published_text(run.scenario, report, key);
  return text.empty() ? text : "   published " + text;
}

void line(std::string& out, std::string_view name, std::string_view value, std::string_view note = {}) {
  // A long name takes the place of the spaces before the value.
  constexpr std::size_t columns = 36;
  const std::size_t width = std::max(width_of(name), std::size_t{20}) + width_of(value);
  fmt::format_to(Text(out), "  {:<20}{}{}{}\n", name, std::string(width < columns ? columns - width : 1, ' '), value,
                 note);
}

void head(std::string& out, const RunView& run) {
  const Scenario& s = run.scenario;
  fmt::format_to(Text(out), "{}\n{}\n", escaped(s.name.empty() ? s.file : s.name),
                 scenario_text(s, run.program.ranks(), name_of(run.executor)));
}

constexpr std::string_view rate_keys[] = {"step_time_s", "tokens_per_s", "tflops_per_gpu", "mfu", "hfu"};

void rates(std::string& out, const RunView& run, const Report& r) {
  line(out, "step time", seconds_text(r.step_time_s), published_note(run, r, "step_time_s"));
  if (run.scenario.pass == Pass::forward) {
    line(out, "latency", seconds_text(r.latency_s), "   of the first step; one more adds the step time");
  }
  line(out, "tokens/s", tokens_text(r.tokens_per_s), published_note(run, r, "tokens_per_s"));
  line(out, "TFLOP/s per GPU", fmt::format("{:.1f}", r.tflops_per_gpu), published_note(run, r, "tflops_per_gpu"));
  line(out, "MFU", percent_text(r.mfu), published_note(run, r, "mfu"));
  line(out, "HFU", percent_text(r.hfu), published_note(run, r, "hfu"));
  line(out, "ops", fmt::format("{}", r.ops));
}

// One line per part of the step, for the mean over ranks.
void time_parts(std::string& out, const Report& r) {
  out += "\nwhere the step goes (mean over ranks)\n";
  const auto part = [&](std::string_view name, double seconds, std::string_view note = {}) {
    line(out, name, seconds_text(seconds), fmt::format("{:>10}{}", percent_text(seconds / r.step_time_s), note));
  };
  part("compute", r.mean.compute_s);
  std::string of_compute = fmt::format("   {} of compute", percent_text(r.bubble_over_ideal()));
  if (r.bubble_over_ideal_closed_form) of_compute += "; closed form " + percent_text(*r.bubble_over_ideal_closed_form);
  part("bubble", r.mean.bubble_s, of_compute);
  for (const StreamKind kind : all_stream_kinds) {
    const double seconds = r.mean.exposed_s[static_cast<std::size_t>(kind)];
    if (seconds > 0) part(fmt::format("exposed {} comm", name_of(kind)), seconds);
  }
  if (r.mean.exposed_total_s() == 0) part("exposed comm", 0);
  part("host-bound", r.mean.host_s);
  if (r.mean.copy_s > 0) part("copies", r.mean.copy_s);
}

void compute_parts(std::string& out, const RunView& run, const Report& r) {
  std::map<OpKind, double> by_kind;
  for (const SpecUse& use : r.uses) by_kind[run.program.op_specs[use.spec].kind] += use.compute_s;
  std::vector<std::pair<OpKind, double>> kinds(by_kind.begin(), by_kind.end());
  std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  out += "\ncompute by kind of op\n";
  constexpr std::size_t most = 8;
  double rest = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const auto& [kind, seconds] = kinds[i];
    if (i >= most) {
      rest += seconds;
    } else if (seconds > 0) {
      line(out, name_of(kind), seconds_text(seconds), fmt::format("{:>10}", percent_text(seconds / r.step_time_s)));
    }
  }
  if (rest > 0) line(out, "others", seconds_text(rest), fmt::format("{:>10}", percent_text(rest / r.step_time_s)));
}

void stages(std::string& out, const RunView& run, const Report& r) {
  std::vector<std::vector<std::string>> rows{
      {"  stage", "ranks", "compute", "bubble", "exposed", "host", "peak memory"}};
  for (const StageReport& stage : r.stages) {
    if (stage.ranks == 0) continue;
    rows.push_back({fmt::format("  {} {}", run.scenario.model[stage.module].name, stage.stage),
                    fmt::format("{}", stage.ranks), seconds_text(stage.mean.compute_s),
                    seconds_text(stage.mean.bubble_s), seconds_text(stage.mean.exposed_total_s()),
                    seconds_text(stage.mean.host_s + stage.mean.copy_s),
                    bytes_text(static_cast<double>(stage.peak_memory_bytes))});
  }
  out += "\n" + aligned_table(rows, 1);
}

void memory(std::string& out, const Report& r) {
  const MemoryReport& m = r.memory;
  const auto part = [&](std::string_view name, std::int64_t bytes) {
    if (bytes > 0) line(out, name, bytes_text(static_cast<double>(bytes)));
  };
  fmt::format_to(Text(out), "\npeak memory (rank {})\n", m.rank);
  for (int c = 0; c < category_count; ++c) {
    const std::string_view name = name_of(static_cast<Category>(c));
    std::string words(name);
    std::replace(words.begin(), words.end(), '_', ' ');
    part(words, m.by_category[static_cast<std::size_t>(c)]);
  }
  part("framework", m.framework_bytes);
  line(out, "peak", bytes_text(static_cast<double>(m.peak_bytes)),
       fmt::format("   of {}: {}, headroom {}", bytes_text(static_cast<double>(m.device_bytes)), name_of(m.verdict),
                   bytes_text(static_cast<double>(m.headroom_bytes()))));
}

// The links that carried most for their capacity; those that carried alike are one line.
void links(std::string& out, const Report& r) {
  if (r.links.empty()) return;
  struct Alike {
    std::string_view first;
    std::int64_t count = 0;
  };
  std::map<std::pair<double, double>, Alike, std::greater<>> by_use;  // utilisation, capacity
  for (const LinkUse& link : r.links) {
    Alike& alike = by_use[{link.bytes / (link.bytes_per_s * r.step_time_s), link.bytes_per_s}];
    if (alike.count++ == 0) alike.first = link.link;
  }
  std::vector<std::vector<std::string>> rows{{"  busiest links", "", "bandwidth", "used"}};
  constexpr std::size_t most = 6;
  for (const auto& [use, alike] : by_use) {
    if (rows.size() > most) break;
    rows.push_back({fmt::format("  {}", alike.first),
                    alike.count > 1 ? fmt::format("and {} like it", alike.count - 1) : "",
                    fmt::format("{:.4g} GB/s", use.second * 1e-9), percent_text(use.first)});
  }
  out += "\n" + aligned_table(rows, 2);
}

// Where the published values come from, and those that stand beside no line above.
void published(std::string& out, const RunView& run, const Report& r) {
  if (!run.scenario.published) return;
  fmt::format_to(Text(out), "\npublished: {}\n", escaped(run.scenario.published->source));
  const std::string& differs_at = run.scenario.published->differs_at;
  if (!differs_at.empty()) {
    fmt::format_to(Text(out), "  not compared: {} makes this another run than the published one\n",
                   escaped(differs_at));
    return;
  }
  for (const auto& [key, value] : run.scenario.published->values) {
    if (std::find(std::begin(rate_keys), std::end(rate_keys), key) != std::end(rate_keys)) continue;
    line(out, metric_title(key), metric_text(key, *metric(r, key)), published_note(run, r, key));
  }
}

// "slowed rank 3", "slowed nic of rank 3"
std::string slowed_text(const Perturbation& p) {
  switch (p.target) {
    case PerturbTarget::rank: return fmt::format("slowed rank {}", p.index);
    case PerturbTarget::node: return fmt::format("slowed node {}", p.index);
    case PerturbTarget::link: return fmt::format("slowed {} of rank {}", p.link, p.index);
    case PerturbTarget::jitter: return "jitter";
  }
  return {};
}

void path(std::string& out, const RunView& run, const Report& r) {
  out += "\ncritical path\n";
  const auto part = [&](std::string_view name, double seconds) {
    if (seconds > 0)
      line(out, name, seconds_text(seconds), fmt::format("{:>10}", percent_text(seconds / r.step_time_s)));
  };
  part("compute", r.path.compute_s);
  for (const StreamKind kind : all_stream_kinds) {
    part(fmt::format("{} comm", name_of(kind)), r.path.transfer_s[static_cast<std::size_t>(kind)]);
  }
  part("copies", r.path.copy_s);
  part("host", r.path.host_s);
  part("start of the step", r.path.start_s);
  for (std::size_t p = 0; p < r.path.by_perturbation.size(); ++p) {
    const Perturbation& perturbation = run.scenario.perturb[p];
    if (perturbation.slows()) part("on " + slowed_text(perturbation), r.path.by_perturbation[p]);
  }
}

}  // namespace

std::string seconds_text(double seconds) {
  const double size = seconds < 0 ? -seconds : seconds;
  if (size == 0) return "0 s";
  if (size >= 1) return fmt::format("{:.4g} s", seconds);
  if (size >= 1e-3) return fmt::format("{:.4g} ms", seconds * 1e3);
  return fmt::format("{:.4g} us", seconds * 1e6);
}

std::string percent_text(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string bytes_text(double bytes) {
  const double size = std::abs(bytes);
  if (size == 0 || size >= 1e8) return fmt::format("{:.2f} GB", bytes * 1e-9);
  if (size >= 1e5) return fmt::format("{:.2f} MB", bytes * 1e-6);
  return fmt::format("{:.2f} kB", bytes * 1e-3);
}

std::string tokens_text(double tokens_per_s) {
  return tokens_per_s >= 100 ? fmt::format("{:.0f}", tokens_per_s) : fmt::format("{:.4g}", tokens_per_s);
}

std::string metric_title(std::string_view key) {
  static const std::map<std::string_view, std::string_view> titles{{"step_time_s", "step time"},
                                                                   {"tokens_per_s", "tokens/s"},
                                                                   {"tflops_per_gpu", "TFLOP/s/GPU"},
                                                                   {"mfu", "MFU"},
                                                                   {"hfu", "HFU"},
                                                                   {"bubble_fraction", "bubble"},
                                                                   {"exposed_comm_fraction", "exposed"},
                                                                   {"peak_memory_bytes", "peak memory"},
                                                                   {"headroom_bytes", "headroom"},
                                                                   {"samples_per_s", "samples/s"}};
  const auto found = titles.find(key);
  return std::string(found == titles.end() ? key : found->second);
}

std::string metric_text(std::string_view key, double value) {
  if (key.ends_with("_s") && !key.ends_with("_per_s")) return seconds_text(value);
  if (key.ends_with("_bytes")) return bytes_text(value);
  if (key == "mfu" || key == "hfu" || key.ends_with("_fraction")) return percent_text(value);
  if (key == "tokens_per_s") return tokens_text(value);
  return fmt::format("{:.5g}", value);
}

std::string published_text(const Scenario& scenario, const Report& report, std::string_view key) {
  if (!scenario.published || !scenario.published->differs_at.empty()) return {};
  const auto found = scenario.published->values.find(std::string(key));
  if (found == scenario.published->values.end()) return {};
  const double ours = *metric(report, key);
  if (found->second == 0) return metric_text(key, 0);
  const double error = ours / found->second - 1;
  const std::string text =
      std::abs(error) < 100 ? fmt::format("{:+.1f} %", 100 * error) : fmt::format("{:.3g} times", error + 1);
  return fmt::format("{} ({})", metric_text(key, found->second), text);
}

std::string degrees_text(const ModuleLayout& layout) {
  std::string out = fmt::format("TP{}", layout.tp);
  if (layout.cp.degree > 1) fmt::format_to(Text(out), " CP{}", layout.cp.degree);
  if (layout.tsp.degree > 1) out = fmt::format("TSP{}", layout.tsp.degree);
  fmt::format_to(Text(out), " PP{} DP{}", layout.pp, layout.dp);
  if (layout.vpp > 1) fmt::format_to(Text(out), " VPP{}", layout.vpp);
  return out;
}

// How the sequence is sharded, and what the TSP paper calls the layout.
std::string sequence_text(const ModuleLayout& layout) {
  const ContextParallel& cp = layout.cp;
  if (layout.tsp.degree > 1)
    return fmt::format(", {}, prefetch {}, {} ring", name_of(layout.tsp.partition), layout.tsp.prefetch,
                       name_of(layout.tsp.ring));
  if (cp.degree == 1) return "";
  std::string out = fmt::format(", {}", name_of(cp.kind));
  if (cp.kind == ContextKind::ulysses_ring) fmt::format_to(Text(out), " ({} × {})", cp.ulysses, cp.ring());
  if (cp.ring() > 1) fmt::format_to(Text(out), " {}", name_of(cp.partition));
  if (layout.tp > 1) return out + fmt::format(" (TP+SP, T={} Σ={})", layout.tp, cp.degree);
  return out + " (SP)";
}

std::string layout_text(const Scenario& scenario) {
  std::string out;
  for (std::size_t v = 0; v < num_vertices(scenario.model); ++v) {
    const ModuleLayout& l = scenario.layout_by_module[v];
    if (!out.empty()) out += "; ";
    fmt::format_to(Text(out), "{}: {}", scenario.model[v].name, degrees_text(l));
    out += sequence_text(l);
    if (l.sequence_parallel && l.tp > 1) out += ", sequence parallel";
    if (scenario.pass == Pass::forward) continue;  // nothing is optimized or computed again
    if (l.zero > 0 && l.dp * l.cp.degree > 1) fmt::format_to(Text(out), ", ZeRO-{}", l.zero);
    if (l.optimizer_instances > 1) fmt::format_to(Text(out), " ({} instances)", l.optimizer_instances);
    fmt::format_to(Text(out), ", recompute {}", name_of(l.recompute));
    if (l.keep != Keep::nothing) fmt::format_to(Text(out), " keeping {}", name_of(l.keep));
  }
  return out;
}

std::string scenario_text(const Scenario& s, int ranks, std::string_view executor) {
  const Cluster& cluster = s.cluster;
  std::string out =
      fmt::format("  {} × {} ({}), {}\n  {}\n", ranks, escaped(cluster.node.device.name),
                  count_text((ranks + cluster.node.gpus - 1) / cluster.node.gpus, "node"), executor, layout_text(s));
  const std::size_t sink = sink_module(s.model);
  fmt::format_to(Text(out), "  batch {}, {} of {} per replica, sequence {}, schedule {}{}\n", s.batch.global,
                 count_text(s.micro_batches(sink), "micro-batch"), s.batch.micro, s.model[sink].shape.sequence,
                 name_of(s.schedule.kind), s.pass == Pass::forward ? ", forward only" : "");
  return out;
}

std::string aligned_table(const std::vector<std::vector<std::string>>& cells, std::size_t left_columns) {
  std::vector<std::vector<std::string>> rows = cells;
  std::vector<std::size_t> widths;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = escaped(cell);
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string text;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - width_of(row[c]), ' ');
      if (c > 0) text += "  ";
      text += c < left_columns ? row[c] + padding : padding + row[c];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
  return out;
}

std::string report_page(const RunView& run, const Report& report) {
  std::string out;
  head(out, run);
  rates(out, run, report);
  time_parts(out, report);
  compute_parts(out, run, report);
  stages(out, run, report);
  memory(out, report);
  path(out, run, report);
  links(out, report);
  published(out, run, report);
  return out;
}

}  // namespace meshweave
