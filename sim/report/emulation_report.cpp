#include "sim/report/emulation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/report/report_json.h"
#include "sim/report/report_table.h"

namespace meshweave {

namespace {

std::string parameter_text(const ParameterKey& key) {
  return key.first < 0 ? key.second : fmt::format("layer {} {}", key.first, key.second);
}

// The parameters that differ most, the worst first.
std::vector<ParameterError> worst_parameters(const EmulationReport& report, std::size_t most) {
  std::vector<ParameterError> worst = report.parameters;
  std::stable_sort(worst.begin(), worst.end(), [](const ParameterError& a, const ParameterError& b) {
    return std::max(a.gradient, a.update) > std::max(b.gradient, b.update);
  });
  worst.resize(std::min(worst.size(), most));
  return worst;
}

}  // namespace

std::string emulation_page(const EmulationView& view) {
  const Scenario& s = view.scenario;
  const EmulationReport& r = view.report;
  std::string out = fmt::format("{}\n  {} emulated in {}{}\n  {}\n", escaped(s.name.empty() ? s.file : s.name),
                                count_text(view.ranks, "rank"), name_of(view.precision),
                                view.tiny ? ", the model made tiny" : "", layout_text(s));
  out += fmt::format("  batch {}, {} of {} per replica, sequence {}, hidden {}, {}\n\n", s.batch.global,
                     count_text(s.micro_batches(0), "micro-batch"), s.batch.micro,
                     s.model[0].shape.sequence, s.model[0].shape.hidden,
                     count_text(s.model[0].shape.layers, "layer"));
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
                      fmt::format("{:.1e}", e.update)});
    }
    out += "\n" + aligned_table(rows, 1);
    out += fmt::format("  of {}, relative to the largest element\n",
                       count_text(static_cast<std::int64_t>(r.parameters.size()), "parameter"));
  }
  out += "\n";
  if (!r.stuck.empty()) out += fmt::format("  the program stands still: {}\n", r.stuck);
  if (!r.matches && !view.wrong && r.stuck.empty()) {
    const bool finite = std::isfinite(r.loss_error + r.norm_error + r.gradient_error + r.update_error);
    out += !finite ? "  no op makes a wrong value, but what is off by inf is never made\n"
           : view.precision == EmulationPrecision::single_precision
               ? "  no op makes a wrong value: the difference is rounding of float; --precision double shows the layout alone\n"
               : "  no op makes a wrong value: the difference is rounding that training amplifies; a smaller "
                 "learning rate or fewer steps show the layout alone\n";
  }
  if (view.wrong) out += fmt::format("  first wrong value: {}\n", view.wrong->text);
  const bool judges_updates = view.precision == EmulationPrecision::double_precision || r.parameters.empty();
  const std::string errors =
      r.parameters.empty()
          ? fmt::format("loss {:.1e}", r.loss_error)
          : fmt::format("loss {:.1e}, gradient norm {:.1e}, gradients {:.1e}, updates {:.1e}", r.loss_error,
                        r.norm_error, r.gradient_error, r.update_error);
  out += fmt::format("{}: largest relative errors: {} (tolerance {:.0e}{})\n",
                     r.matches ? "matches the reference" : "DIFFERS from the reference", errors, r.tolerance,
                     judges_updates ? "" : "; updates are shown, not judged in float");
  return out;
}

void write_emulation(JsonText& out, const EmulationView& view) {
  const EmulationReport& r = view.report;
  out.field("schema_version", report_schema_version);
  out.field("scenario", view.scenario.file);
  out.field("name", view.scenario.name);
  out.field("executor", "numeric");
  out.field("precision", name_of(view.precision));
  out.field("model_scale", view.tiny ? "tiny" : "full");
  out.field("ranks", view.ranks);
  out.key("loss"), out.array();
  for (const double loss : r.loss) out.number(loss);
  out.end();
  out.key("reference_loss"), out.array();
  for (const double loss : r.reference_loss) out.number(loss);
  out.end();
  out.field("loss_error", r.loss_error);
  out.field("gradient_norm_error", r.norm_error);
  out.field("gradient_error", r.gradient_error);
  out.field("update_error", r.update_error);
  out.key("parameters"), out.array();
  for (const ParameterError& e : r.parameters) {
    out.object();
    if (e.parameter.first >= 0) out.field("layer", e.parameter.first);
    out.field("name", e.parameter.second);
    out.field("gradient_error", e.gradient);
    out.field("update_error", e.update);
    out.end();
  }
  out.end();
  out.field("tolerance", r.tolerance);
  out.field("stands_still", r.stuck);
  out.key("first_wrong");
  if (view.wrong) {
    out.object();
    out.field("rank", view.wrong->rank);
    out.field("step", view.wrong->step);
    out.field("op", static_cast<std::int64_t>(view.wrong->op));
    out.field("text", view.wrong->text);
    out.end();
  } else {
    out.null();
  }
  out.field("matches", r.matches);
}

}  // namespace meshweave
