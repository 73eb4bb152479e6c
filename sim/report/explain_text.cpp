// The two forms of an explanation: text for people, JSON for programs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/base/json_text.h"
#include "sim/report/explain.h"
#include "sim/report/report_table.h"

namespace meshweave {
namespace {

constexpr std::size_t most_parts = 12;  // in text; JSON has all of them

// The sources of an explanation, in order of first use, each printed once.
class Sources {
 public:
  // "[2]"
  std::string mark(const std::string& source) {
    const auto known = std::find(texts_.begin(), texts_.end(), source);
    const auto number = known - texts_.begin() + 1;
    if (known == texts_.end()) texts_.push_back(source);
    return fmt::format("[{}]", number);
  }
  std::string list() const {
    std::string out = texts_.empty() ? "" : "\nsources\n";
    for (std::size_t i = 0; i < texts_.size(); ++i) out += fmt::format("  [{}] {}\n", i + 1, escaped(texts_[i]));
    return out;
  }

 private:
  std::vector<std::string> texts_;
};

std::string value_text(double value, const std::string& unit) {
  if (unit == "s") return seconds_text(value);
  if (unit == "bytes") return bytes_text(value);
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  if (unit == "1/s" && value >= 1e5) return fmt::format("{:.0f} 1/s", value);
  if (unit == "1") return whole ? fmt::format("{:.0f}", value) : fmt::format("{:.6g}", value);
  return fmt::format("{:.6g} {}", value, unit);
}

void number_text(std::string& out, const ExplainedNumber& number, Sources& sources) {
  fmt::format_to(std::back_inserter(out), "\n{} = {}\n  {}{}\n", number.key, value_text(number.value, number.unit),
                 escaped(number.rule), number.source.empty() ? "" : " " + sources.mark(number.source));
  std::vector<std::vector<std::string>> rows;
  double rest = 0;
  for (std::size_t i = 0; i < number.parts.size(); ++i) {
    const ExplainedPart& part = number.parts[i];
    if (i >= most_parts) {
      rest += part.value;
    } else {
      rows.push_back({"    " + part.name, value_text(part.value, number.unit)});
    }
  }
  if (number.parts.size() > most_parts) {
    rows.push_back({fmt::format("    {} more", number.parts.size() - most_parts), value_text(rest, number.unit)});
  }
  out += aligned_table(rows, 1);
}

void ops_text(std::string& out, const Explanation& explanation, bool communication, Sources& sources) {
  out += communication ? "\ncommunications of most transfer time (mean over ranks, hidden or not)\n"
                       : "\nops of most compute time (mean over ranks)\n";
  for (const ExplainedOp& op : explanation.ops) {
    if (op.communication != communication) continue;
    fmt::format_to(std::back_inserter(out), "  {:>9}  {} {}, {}, {}\n             {} {}\n", seconds_text(op.seconds),
                   op.kind, op.label, op.phase, count_text(op.executions, "execution"), escaped(op.cost),
                   sources.mark(op.source));
  }
}

}  // namespace

std::string explanation_text(const Explanation& explanation) {
  std::string out = escaped(explanation.title) + "\n";
  Sources sources;
  for (const ExplainedNumber& number : explanation.numbers) number_text(out, number, sources);
  ops_text(out, explanation, false, sources);
  ops_text(out, explanation, true, sources);
  out += sources.list();
  out += "\nwho delays the step\n  " + escaped(explanation.slowest) + "\n";
  std::vector<std::vector<std::string>> rows;
  for (const ExplainedPart& part : explanation.path) rows.push_back({"    " + part.name, seconds_text(part.value)});
  for (const ExplainedPart& part : explanation.path_kinds)
    rows.push_back({"    " + part.name, seconds_text(part.value)});
  for (const ExplainedDelay& delay : explanation.delays) {
    rows.push_back({"    delay by " + delay.what, seconds_text(delay.delay_s)});
    if (delay.path_s) rows.push_back({"    on the critical path: " + delay.what, seconds_text(*delay.path_s)});
  }
  return out + aligned_table(rows, 1);
}

std::string explanation_json(const Explanation& explanation) {
  JsonText out(2);
  out.object();
  out.field("schema_version", 1);
  out.field("name", explanation.title);
  out.key("numbers"), out.object();
  for (const ExplainedNumber& number : explanation.numbers) {
    out.key(number.key), out.object();
    out.field("value", number.value);
    out.field("unit", number.unit);
    out.field("rule", number.rule);
    if (!number.source.empty()) out.field("source", number.source);
    out.key("parts"), out.array();
    for (const ExplainedPart& part : number.parts) {
      out.object(), out.field("name", part.name), out.field("value", part.value), out.end();
    }
    out.end();
    out.end();
  }
  out.end();
  out.key("ops"), out.array();
  for (const ExplainedOp& op : explanation.ops) {
    out.object();
    out.field("label", op.label);
    out.field("kind", op.kind);
    out.field("phase", op.phase);
    out.field("executions", op.executions);
    out.field(op.communication ? "transfer_s" : "compute_s", op.seconds);
    out.field("cost", op.cost);
    out.field("source", op.source);
    out.end();
  }
  out.end();
  out.key("critical_path"), out.object();
  out.field("slowest", explanation.slowest);
  out.key("by_stage"), out.array();
  for (const ExplainedPart& part : explanation.path) {
    out.object(), out.field("name", part.name), out.field("value", part.value), out.end();
  }
  out.end();
  out.key("by_kind"), out.array();
  for (const ExplainedPart& part : explanation.path_kinds) {
    out.object(), out.field("name", part.name), out.field("value", part.value), out.end();
  }
  out.end();
  out.end();
  if (!explanation.delays.empty()) {
    out.key("perturbation"), out.object();
    out.field("unperturbed_step_time_s", explanation.unperturbed_step_s);
    out.field("delay_s", explanation.delay_s);
    out.key("causes"), out.array();
    for (const ExplainedDelay& delay : explanation.delays) {
      out.object(), out.field("what", delay.what), out.field("delay_s", delay.delay_s);
      if (delay.path_s) out.field("critical_path_s", *delay.path_s);
      out.end();
    }
    out.end();
    out.end();
  }
  out.end();
  return out.take() + "\n";
}

}  // namespace meshweave
