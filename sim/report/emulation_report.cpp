#include "sim/report/emulation_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/report/report_json.h"
#include "sim/report/report_table.h"

namespace meshweave {

namespace {

std::string parameter_text(const ParameterKey& key) {
  return key.first < 0 ? key.second : fmt::format("layer {} {}", key.first, key.second);
}

// The parameters that differ most in what is judged, the worst first.
std::vector<ParameterError> worst_parameters(const EmulationReport& report, std::size_t most) {
  std::vector<ParameterError> worst = report.parameters;
  const auto judged = [&](const ParameterError& e) {
    return report.updates_judged ? std::max(e.gradient, e.update) : e.gradient;
  };
  std::stable_sort(worst.begin(), worst.end(),
                   [&](const ParameterError& a, const ParameterError& b) { return judged(a) > judged(b); });
  worst.resize(std::min(worst.size(), most));
  return worst;
}

// What was compared, and by how much it is off at most: "loss 1.2e-15, gradients 3.4e-14, updates 5.6e-14".
std::string errors_text(const Scenario& scenario, const EmulationReport& r) {
  std::string text = fmt::format("loss {:.1e}", r.loss_error);
  if (makes_norm(scenario)) text += fmt::format(", gradient norm {:.1e}", r.norm_error);
  if (r.parameters.empty()) return text;
  text += fmt::format(", gradients {:.1e}", r.gradient_error);
  if (r.updates_shown) text += fmt::format(", updates {:.1e}", r.update_error);
  return text;
}

// What the verdict leaves out; empty for nothing.
std::string not_judged(const EmulationView& view) {
  if (view.scenario.pass == Pass::forward) return "forward pass only";
  if (view.report.updates_judged) return "";
  if (view.report.updates_shown) return "updates are shown, not judged in float";
  const double rate = view.scenario.optimizer.adam.learning_rate;
  return fmt::format("updates not judged: learning rate {}{}", rate,
                     rate > 0 ? ", which changes parameters by little more than their rounding" : "");
}

std::vector<std::string> no_op_reason(const EmulationView& view) {
  const EmulationReport& r = view.report;
  const bool rounding = view.judgement.verdict == EmulationVerdict::rounding;
  if (!std::isfinite(r.loss_error + r.norm_error + r.gradient_error + r.update_error)) {
    return {"no op could be named: no op makes a wrong value, but what is off by inf is never made"};
  }
  std::vector<std::string> lines;
  lines.push_back(rounding ? fmt::format("rounding that training amplifies over {} steps", r.loss.size())
                           : std::string("no op could be named"));
  lines.push_back(
      fmt::format("every op of every step was compared with the reference in double, from its parameters of "
                  "that step, and none is wrong (largest relative error {:.1e})",
                  view.judgement.ops->largest));
  if (view.judgement.two_steps) {
    lines.push_back(fmt::format("2 steps alone {}: {}", rounding ? "match" : "differ too",
                                errors_text(view.scenario, *view.judgement.two_steps)));
  }
  if (view.precision == EmulationPrecision::single_precision) {
    lines.push_back(
        fmt::format("it {} rounding of float: --precision double shows the layout alone", rounding ? "is" : "may be"));
  } else if (rounding) {
    lines.push_back("a smaller learning rate or fewer steps show the layout alone");
  }
  return lines;
}

// Why the verdict is what it is, in one line or several.
std::vector<std::string> reason(const EmulationView& view) {
  if (view.judgement.verdict == EmulationVerdict::matches) return {"every error is within the tolerance"};
  std::vector<std::string> lines;
  if (!view.report.stuck.empty()) lines.push_back("the program stands still: " + view.report.stuck);
  if (view.judgement.ops->wrong) lines.push_back("first wrong value: " + view.judgement.ops->wrong->text);
  return lines.empty() ? no_op_reason(view) : lines;
}

void write_error(JsonText& out, std::string_view key, bool made, double error) {
  out.key(key);
  made ? out.number(error) : out.null();
}

void write_parameters(JsonText& out, const EmulationReport& r) {
  out.key("parameters");
  if (r.parameters.empty()) return out.null();
  out.array();
  for (const ParameterError& e : r.parameters) {
    out.object();
    if (e.parameter.first >= 0) out.field("layer", e.parameter.first);
    out.field("name", e.parameter.second);
    out.field("gradient_error", e.gradient);
    write_error(out, "update_error", r.updates_shown, e.update);
    out.end();
  }
  out.end();
}

}  // namespace

std::string_view model_scale_name(bool tiny) { return tiny ? "tiny" : "full"; }

std::string emulation_page(const EmulationView& view) {
  const Scenario& s = view.scenario;
  const EmulationReport& r = view.report;
  std::string out =
      fmt::format("{}\n  {} emulated in {}{}{}\n  {}\n", escaped(s.name.empty() ? s.file : s.name),
                  count_text(view.ranks, "rank"), name_of(view.precision), view.tiny ? ", the model made tiny" : "",
                  s.pass == Pass::forward ? ", forward pass only" : "", layout_text(s));
  out += fmt::format("  batch {}, {} of {} per replica, sequence {}, hidden {}, {}, seed {}\n\n", s.batch.global,
                     count_text(s.micro_batches(0), "micro-batch"), s.batch.micro, s.model[0].shape.sequence,
                     s.model[0].shape.hidden, count_text(s.model[0].shape.layers, "layer"), s.seed);
  constexpr std::size_t most_steps = 20;
  std::vector<std::vector<std::string>> steps{{"  step", "loss", "reference", "difference"}};
  const std::size_t skipped = r.loss.size() > most_steps ? r.loss.size() - most_steps : 0;
  for (std::size_t i = skipped; i < r.loss.size(); ++i) {
    steps.push_back({fmt::format("  {}", i), fmt::format("{:.12f}", r.loss[i]),
                     fmt::format("{:.12f}", r.reference_loss[i]),
                     fmt::format("{:.1e}", r.loss[i] - r.reference_loss[i])});
  }
  if (skipped > 0) out += fmt::format("  the last {} of {} steps\n", most_steps, r.loss.size());
  out += aligned_table(steps, 0);
  if (!r.parameters.empty()) {
    std::vector<std::vector<std::string>> rows{{"  parameters that differ most", "gradient", "update"}};
    for (const ParameterError& e : worst_parameters(r, 8)) {
      rows.push_back({"  " + parameter_text(e.parameter), fmt::format("{:.1e}", e.gradient),
                      r.updates_shown ? fmt::format("{:.1e}", e.update) : "-"});
    }
    out += "\n" + aligned_table(rows, 1);
    out += fmt::format("  of {}, relative to the largest element\n",
                       count_text(static_cast<std::int64_t>(r.parameters.size()), "parameter"));
  }
  out += "\n";
  const EmulationVerdict verdict = view.judgement.verdict;
  if (verdict != EmulationVerdict::matches) {
    for (const std::string& line : reason(view)) out += fmt::format("  {}\n", line);
  }
  const std::string note = not_judged(view);
  out += fmt::format("{}: largest relative errors: {} (tolerance {:.0e}{})\n",
                     verdict == EmulationVerdict::matches    ? "matches the reference"
                     : verdict == EmulationVerdict::rounding ? "differs from the reference by ROUNDING alone"
                                                             : "DIFFERS from the reference",
                     errors_text(s, r), r.tolerance, note.empty() ? "" : "; " + note);
  return out;
}

void write_emulation(JsonText& out, const EmulationView& view) {
  const Scenario& s = view.scenario;
  const EmulationReport& r = view.report;
  out.field("schema_version", report_schema_version);
  out.field("scenario", view.scenario.file);
  out.field("name", view.scenario.name);
  out.field("executor", "numeric");
  out.field("precision", name_of(view.precision));
  out.field("model_scale", model_scale_name(view.tiny));
  out.field("pass", name_of(s.pass));
  out.field("ranks", view.ranks);
  out.field("layout", layout_text(s));
  out.field("batch", s.batch.global);
  out.field("micro_batches", s.micro_batches(0));
  out.field("micro_batch", s.batch.micro);
  out.field("sequence", s.model[0].shape.sequence);
  out.field("hidden", s.model[0].shape.hidden);
  out.field("layers", s.model[0].shape.layers);
  out.field("seed", static_cast<std::int64_t>(s.seed));
  out.field("steps", static_cast<std::int64_t>(r.loss.size()));
  out.key("loss"), out.array();
  for (const double loss : r.loss) out.number(loss);
  out.end();
  out.key("reference_loss"), out.array();
  for (const double loss : r.reference_loss) out.number(loss);
  out.end();
  out.field("loss_error", r.loss_error);
  write_error(out, "gradient_norm_error", makes_norm(s), r.norm_error);
  const bool compared = !r.parameters.empty();
  write_error(out, "gradient_error", compared, r.gradient_error);
  write_error(out, "update_error", compared && r.updates_shown, r.update_error);
  out.field("updates_judged", r.updates_judged);
  out.field("not_judged", not_judged(view));
  write_parameters(out, r);
  out.field("tolerance", r.tolerance);
  out.field("stands_still", r.stuck);
  out.key("first_wrong");
  if (view.judgement.ops && view.judgement.ops->wrong) {
    const WrongOp& wrong = *view.judgement.ops->wrong;
    out.object();
    out.field("rank", wrong.rank);
    out.field("step", wrong.step);
    out.field("op", static_cast<std::int64_t>(wrong.op));
    out.field("text", wrong.text);
    out.end();
  } else {
    out.null();
  }
  out.field("verdict", name_of(view.judgement.verdict));
  out.field("reason", fmt::format("{}", fmt::join(reason(view), "; ")));
  out.field("matches", r.matches);
}

}  // namespace meshweave
