#include "sim/report/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "sim/base/quantity.h"
#include "sim/cost/costs.h"
#include "sim/report/memory_parts.h"
#include "sim/report/report_table.h"

namespace meshweave {
namespace {

using Parts = std::vector<ExplainedPart>;

Parts scaled(Parts parts, double factor) {
  for (ExplainedPart& part : parts) part.value *= factor;
  return parts;
}

std::string stage_name(const RunView& run, const StageReport& stage) {
  return fmt::format("{} stage {}", run.scenario.model[stage.module].name, stage.stage);
}

// `value` of each stage, weighted so that the sum is the mean over all ranks.
Parts by_stage(const RunView& run, const Report& report, const std::function<double(const TimeShares&)>& value) {
  Parts parts;
  for (const StageReport& stage : report.stages) {
    if (stage.ranks == 0) continue;
    parts.push_back({fmt::format("{} ({})", stage_name(run, stage), count_text(stage.ranks, "rank")),
                     value(stage.mean) * stage.ranks / report.ranks});
  }
  return parts;
}

// Sums of `value` over the executed specs, by `name`; largest first.
Parts by_spec(const RunView& run, const Report& report, const std::function<double(const SpecUse&)>& value,
              const std::function<std::string(const OpSpec&)>& name) {
  std::map<std::string, double> sums;
  for (const SpecUse& use : report.uses) {
    const double amount = value(use);
    if (amount != 0) sums[name(run.program.op_specs[use.spec])] += amount;
  }
  Parts parts;
  for (const auto& [key, sum] : sums) parts.push_back({key, sum});
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.value > b.value; });
  return parts;
}

Parts exposed_parts(const Report& report) {
  Parts parts;
  for (const StreamKind kind : all_stream_kinds) {
    const double seconds = report.mean.exposed_s[static_cast<std::size_t>(kind)];
    if (seconds != 0) parts.push_back({fmt::format("{} communication", name_of(kind)), seconds});
  }
  return parts;
}

Parts step_parts(const Report& report) {
  Parts parts{{"compute", report.mean.compute_s}, {"bubble", report.mean.bubble_s}};
  for (const ExplainedPart& part : exposed_parts(report)) parts.push_back({"exposed " + part.name, part.value});
  parts.push_back({"host-bound", report.mean.host_s});
  parts.push_back({"copies", report.mean.copy_s});
  return parts;
}

// The model's FLOPs of a step: attention and logits by their formula, the remainder are matmuls with weights.
Parts model_flops_parts(const Scenario& scenario, double total) {
  const double passes = scenario.pass == Pass::forward ? 1 : 3;
  const double samples = static_cast<double>(scenario.batch.global);
  double attention = 0;
  double logits = 0;
  for (std::size_t v = 0; v < num_vertices(scenario.model); ++v) {
    const TransformerShape& shape = scenario.model[v].shape;
    const double s = static_cast<double>(shape.sequence);
    const double rows = static_cast<double>(shape.padded_vocabulary(scenario.layout_by_module[v].weight_shards()));
    attention += samples * passes * 4 * s * s * static_cast<double>(shape.q_size() * shape.layers);
    logits += samples * passes * 2 * s * static_cast<double>(shape.hidden) * rows;
  }
  return {{"projections and MLPs", total - attention - logits}, {"attention", attention}, {"logits", logits}};
}

Parts ops_parts(const RunView& run, const Report& report) {
  Parts parts;
  for (const StageReport& stage : report.stages) {
    if (stage.ranks == 0) continue;
    parts.push_back({fmt::format("{} ({} × {})", stage_name(run, stage), count_text(stage.ranks, "rank"),
                                 count_text(stage.ops / stage.ranks, "op")),
                     static_cast<double>(stage.ops)});
  }
  return parts;
}

Parts peak_parts(const Report& report) {
  Parts parts;
  for (int c = 0; c < category_count; ++c) {
    const std::int64_t bytes = report.memory.by_category[static_cast<std::size_t>(c)];
    if (bytes != 0) parts.push_back({std::string(name_of(static_cast<Category>(c))), static_cast<double>(bytes)});
  }
  parts.push_back({"framework", static_cast<double>(report.memory.framework_bytes)});
  return parts;
}

std::string spec_name(const OpSpec& spec) {
  return fmt::format("{} {}, {}", name_of(spec.kind), spec.label, name_of(spec.phase));
}

bool issue_is_free(const Scenario& s) { return s.host.graphs || s.cost.kind == CostKind::fixed || s.host.issue_s <= 0; }

// "110 us per op, CUDA graphs off"
std::string issue_text(const Scenario& s) {
  if (s.cost.kind == CostKind::fixed) return "nothing: the cost model \"fixed\" leaves the host out";
  if (s.host.graphs) return "nothing: CUDA graphs (host.graphs) are on";
  return fmt::format("{} per op ({}), CUDA graphs (host.graphs) off",
                     format_quantity(s.host.issue_s, QuantityKind::seconds),
                     s.host.issue_s == s.cluster.node.device.host_issue_s ? s.cluster.node.device.name : "host.issue");
}

ExplainedNumber host_number(const RunView& run, const Report& report) {
  const Scenario& s = run.scenario;
  ExplainedNumber number{
      "host_s", report.mean.host_s,
      "s",      "idle because the host had not issued the op; weighted by ranks. Issuing costs " + issue_text(s),
      {},       {}};
  if (!issue_is_free(s)) {
    number.source =
        s.host.issue_s == s.cluster.node.device.host_issue_s ? s.cluster.node.device.source : "the scenario";
  }
  for (const StageReport& stage : report.stages) {
    if (stage.ranks == 0) continue;
    const std::int64_t ops = stage.ops / stage.ranks;
    std::string name = fmt::format("{} ({}", stage_name(run, stage), count_text(stage.ranks, "rank"));
    if (!issue_is_free(s)) {
      name += fmt::format(" × {}: {} to issue", count_text(ops, "op"),
                          seconds_text(static_cast<double>(ops) * s.host.issue_s));
    }
    number.parts.push_back({name + ")", stage.mean.host_s * stage.ranks / report.ranks});
  }
  return number;
}

void add_time(const RunView& run, const Report& r, std::vector<ExplainedNumber>& numbers) {
  const double per_step = 1 / r.step_time_s;
  const auto compute = by_spec(
      run, r, [](const SpecUse& u) { return u.compute_s; }, spec_name);
  const auto bubble = by_stage(run, r, [](const TimeShares& s) { return s.bubble_s; });
  numbers.push_back({"step_time_s", r.step_time_s, "s",
                     "every moment of a rank's compute stream is one of these; means over ranks", step_parts(r)});
  numbers.push_back({"latency_s",
                     r.latency_s,
                     "s",
                     "the first step, from an idle cluster to its last op; every further step adds step_time_s",
                     {{"first step", r.latency_s}}});
  numbers.push_back({"compute_s", r.mean.compute_s, "s", "executed ops of the compute stream", compute});
  numbers.push_back({"bubble_s", r.mean.bubble_s, "s",
                     "idle until a peer posts its side or the step ends; weighted by ranks", bubble});
  numbers.push_back(
      {"exposed_comm_s", r.mean.exposed_total_s(), "s", "idle while the awaited transfer runs", exposed_parts(r)});
  numbers.push_back(host_number(run, r));
  numbers.push_back({"copy_s", r.mean.copy_s, "s", "idle for a copy between host and device; weighted by ranks",
                     by_stage(run, r, [](const TimeShares& s) { return s.copy_s; })});
  numbers.push_back({"bubble_fraction", r.bubble_fraction(), "1", "bubble_s / step_time_s", scaled(bubble, per_step)});
  numbers.push_back({"exposed_comm_fraction", r.exposed_comm_fraction(), "1", "exposed_comm_s / step_time_s",
                     scaled(exposed_parts(r), per_step)});
  numbers.push_back({"bubble_over_ideal", r.bubble_over_ideal(), "1", "bubble_s / compute_s",
                     scaled(bubble, r.mean.compute_s > 0 ? 1 / r.mean.compute_s : 0)});
  if (!r.bubble_over_ideal_closed_form) return;
  const ModuleLayout& layout = run.scenario.layout_by_module[sink_module(run.scenario.model)];
  numbers.push_back(
      {"bubble_over_ideal_closed_form",
       *r.bubble_over_ideal_closed_form,
       "1",
       fmt::format("(p - 1) / (v m) with p = {}, v = {}, m = {}: Narayanan et al. 2104.04473, section 2.2", layout.pp,
                   layout.vpp, run.scenario.micro_batches(sink_module(run.scenario.model))),
       {{"(p - 1) / (v m)", *r.bubble_over_ideal_closed_form}}});
}

void add_rates(const RunView& run, const Report& r, std::vector<ExplainedNumber>& numbers) {
  const Scenario& s = run.scenario;
  const std::size_t sink = sink_module(s.model);
  const double step = r.step_time_s;
  const double peak = s.cluster.node.device.peak_flops_per_s;
  const Parts model = model_flops_parts(s, r.model_flops);
  const Parts executed = by_spec(
      run, r, [](const SpecUse& u) { return u.flops * static_cast<double>(u.executions); }, spec_name);
  const std::string peak_text = fmt::format(
      "({} × {} of {})", r.ranks, format_quantity(peak, QuantityKind::flops_per_second), s.cluster.node.device.name);
  const std::string& device_source = s.cluster.node.device.source;
  const int replicas = s.layout_by_module[sink].dp;
  const std::string replica_text =
      fmt::format("{} × {} × {}", count_text(replicas, "replica"), count_text(s.micro_batches(sink), "micro-batch"),
                  count_text(s.batch.micro, "sample"));
  numbers.push_back(
      {"samples_per_s", r.samples_per_s, "1/s", "global batch / step time", {{replica_text, r.samples_per_s}}});
  numbers.push_back({"tokens_per_s",
                     r.tokens_per_s,
                     "1/s",
                     "samples_per_s × " + count_text(s.model[sink].shape.sequence, "token"),
                     {{replica_text, r.tokens_per_s}}});
  numbers.push_back({"model_flops", r.model_flops, "FLOP",
                     fmt::format("{} of one step, full attention, no recomputation: Korthikanti et al. 2205.05198, "
                                 "equation 3{}",
                                 s.pass == Pass::forward ? "forward" : "forward and backward",
                                 s.pass == Pass::forward ? ", of which forward is a third" : ""),
                     model});
  numbers.push_back({"executed_flops", r.executed_flops, "FLOP", "the ops of all ranks", executed});
  numbers.push_back({"tflops_per_gpu", r.tflops_per_gpu, "TFLOP/s", "model_flops / step time / ranks",
                     scaled(model, 1e-12 / step / r.ranks)});
  numbers.push_back({"mfu", r.mfu, "1", "model_flops / step time / " + peak_text,
                     scaled(model, 1 / step / r.ranks / peak), device_source});
  numbers.push_back({"hfu", r.hfu, "1", "executed_flops / step time / " + peak_text,
                     scaled(executed, 1 / step / r.ranks / peak), device_source});
  numbers.push_back({"ops", static_cast<double>(r.ops), "1", "executions on all ranks", ops_parts(run, r)});
}

void add_memory(const RunView& run, const Report& r, std::vector<ExplainedNumber>& numbers) {
  const DeviceModel& device = run.scenario.cluster.node.device;
  const auto peak = static_cast<double>(r.memory.peak_bytes);
  numbers.push_back({"peak_memory_bytes", peak, "bytes",
                     fmt::format("alive on rank {} at the peak, and the framework's constant", r.memory.rank),
                     peak_parts(r), device.source});
  numbers.push_back({"headroom_bytes",
                     static_cast<double>(r.memory.headroom_bytes()),
                     "bytes",
                     "allocatable memory less the peak",
                     {{device.name, static_cast<double>(r.memory.device_bytes)}, {"peak", -peak}},
                     device.source});
  for (int c = 0; c < category_count; ++c) {
    const std::int64_t bytes = r.memory.by_category[static_cast<std::size_t>(c)];
    if (bytes == 0) continue;
    ExplainedNumber number{fmt::format("memory_by_category/{}", name_of(static_cast<Category>(c))),
                           static_cast<double>(bytes),
                           "bytes",
                           "tensors alive at the peak",
                           {},
                           {}};
    for (const MemoryPart& part : memory_at_peak(run, r.memory.body, static_cast<Category>(c))) {
      number.parts.push_back({fmt::format("{} × {}", part.count, part.name), static_cast<double>(part.bytes)});
    }
    numbers.push_back(std::move(number));
  }
}

// The ops of one kind, label and phase: as many specs as they have shapes.
struct AlikeOps {
  std::vector<const SpecUse*> uses;
  double seconds = 0;
};

void add_ops(const RunView& run, const Report& report, bool communication, Explanation& explanation) {
  constexpr std::size_t most = 12;
  const auto seconds = [&](const SpecUse& use) { return communication ? use.transfer_s : use.compute_s; };
  std::map<std::string, AlikeOps> by_name;
  for (const SpecUse& use : report.uses) {
    const OpSpec& spec = run.program.op_specs[use.spec];
    if (is_communication(spec.kind) != communication) continue;
    AlikeOps& alike = by_name[spec_name(spec)];
    alike.uses.push_back(&use);
    alike.seconds += seconds(use);
  }
  std::vector<AlikeOps> all;
  for (auto& [name, alike] : by_name) all.push_back(std::move(alike));
  std::stable_sort(all.begin(), all.end(), [](const AlikeOps& a, const AlikeOps& b) { return a.seconds > b.seconds; });
  all.resize(std::min(most, all.size()));
  for (const AlikeOps& alike : all) {
    const SpecUse* first =
        *std::max_element(alike.uses.begin(), alike.uses.end(),
                          [&](const SpecUse* a, const SpecUse* b) { return seconds(*a) < seconds(*b); });
    const OpSpec& spec = run.program.op_specs[first->spec];
    std::int64_t executions = 0;
    for (const SpecUse* use : alike.uses) executions += use->executions;
    CostOrigin origin = explain_cost(run.program, run.scenario, spec);
    if (alike.uses.size() > 1) {
      origin.text +=
          fmt::format(" (and {})", count_text(static_cast<std::int64_t>(alike.uses.size()) - 1, "other shape"));
    }
    explanation.ops.push_back({spec.label, std::string(name_of(spec.kind)), std::string(name_of(spec.phase)),
                               executions, alike.seconds, communication, std::move(origin.text),
                               std::move(origin.source)});
  }
}

Parts path_kinds(const PathReport& path) {
  Parts parts{{"compute", path.compute_s}};
  for (const StreamKind kind : all_stream_kinds) {
    parts.push_back({fmt::format("{} communication", name_of(kind)), path.transfer_s[static_cast<std::size_t>(kind)]});
  }
  parts.push_back({"copies", path.copy_s});
  parts.push_back({"the host", path.host_s});
  parts.push_back({"the start of the step", path.start_s});
  std::erase_if(parts, [](const ExplainedPart& part) { return part.value == 0; });
  return parts;
}

const ExplainedPart& largest(const Parts& parts) {
  return *std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
}

std::string share_of_path(const ExplainedPart& part, const Report& report) {
  return fmt::format("{} holds {} of the critical path", part.name, percent_text(part.value / report.step_time_s));
}

// Which stage or, where there is one alone, what; and the host where it is a large part.
std::string who_delays(const RunView& run, const Report& report, const Explanation& explanation) {
  constexpr double large = 0.05;
  const bool stages = explanation.path.size() > 1;
  std::string text = share_of_path(largest(stages ? explanation.path : explanation.path_kinds), report);
  if (report.path.host_s < large * report.step_time_s) return text;
  const bool most = largest(explanation.path_kinds).name == "the host";
  const std::string host = fmt::format("{}; issuing costs {}", share_of_path({"the host", report.path.host_s}, report),
                                       issue_text(run.scenario));
  if (most) return stages ? host + "; " + text : host;
  return text + "; " + host;
}

std::string perturbation_text(const Perturbation& p) {
  switch (p.target) {
    case PerturbTarget::rank: return fmt::format("rank {}: compute × {}", p.index, p.compute_time);
    case PerturbTarget::node: return fmt::format("node {}: compute × {}", p.index, p.compute_time);
    case PerturbTarget::link: return fmt::format("{} link of rank {}: bandwidth × {}", p.link, p.index, p.bandwidth);
    case PerturbTarget::jitter: return fmt::format("jitter: sigma {}", p.sigma);
  }
  return {};
}

// Whom the delay of a perturbed step is due to. Only what lengthens the step is named, by how much it does so.
std::string culprit_text(const Explanation& explanation, const ExplainedDelay& most, const Report& report) {
  if (explanation.delay_s == 0) return "the perturbations do not delay the step; " + explanation.slowest;
  if (explanation.delay_s < 0) {
    return fmt::format("the step takes {} less than without perturbations; {}", seconds_text(-explanation.delay_s),
                       explanation.slowest);
  }
  std::string text =
      fmt::format("the step takes {} longer than without perturbations; ", seconds_text(explanation.delay_s));
  if (most.delay_s <= 0) return text + "leaving out any single one makes it no shorter";
  if (explanation.delays.size() == 1) {
    text += "all of it by " + most.what;
  } else {
    text += fmt::format("the largest part by {}, without which the step takes {} less", most.what,
                        seconds_text(most.delay_s));
  }
  if (most.path_s)
    return text + fmt::format(", which holds {} of the critical path", percent_text(*most.path_s / report.step_time_s));
  return text + ", which touches the compute ops of all ranks";
}

}  // namespace

Explanation explain_report(const RunView& run, const Report& report) {
  Explanation explanation;
  explanation.title = run.scenario.name.empty() ? run.scenario.file : run.scenario.name;
  add_time(run, report, explanation.numbers);
  add_rates(run, report, explanation.numbers);
  add_memory(run, report, explanation.numbers);
  add_ops(run, report, false, explanation);
  add_ops(run, report, true, explanation);
  for (std::size_t s = 0; s < report.stages.size(); ++s) {
    explanation.path.push_back({stage_name(run, report.stages[s]), report.path.by_stage[s]});
  }
  explanation.path_kinds = path_kinds(report.path);
  explanation.slowest = who_delays(run, report, explanation);
  return explanation;
}

void explain_delay(Explanation& explanation, const RunView& run, const Report& report, double unperturbed_step_s,
                   const std::vector<double>& step_without_s) {
  explanation.unperturbed_step_s = unperturbed_step_s;
  explanation.delay_s = report.step_time_s - unperturbed_step_s;
  const std::vector<Perturbation>& perturb = run.scenario.perturb;
  std::size_t most = 0;
  for (std::size_t p = 0; p < perturb.size(); ++p) {
    ExplainedDelay delay{perturbation_text(perturb[p]), report.step_time_s - step_without_s[p], {}};
    if (perturb[p].target != PerturbTarget::jitter) delay.path_s = report.path.by_perturbation[p];
    explanation.delays.push_back(std::move(delay));
    if (explanation.delays[p].delay_s > explanation.delays[most].delay_s) most = p;
  }
  if (explanation.delays.empty()) return;
  explanation.slowest = culprit_text(explanation, explanation.delays[most], report);
}

}  // namespace meshweave
