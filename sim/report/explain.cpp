#include "sim/report/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

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

// `value` of each stage, weighted so that the sum is the mean over all ranks.
Parts by_stage(const RunView& run, const Report& report, const std::function<double(const TimeShares&)>& value) {
  Parts parts;
  for (const StageReport& stage : report.stages) {
    if (stage.ranks == 0) continue;
    parts.push_back({fmt::format("{} stage {} ({} ranks)", run.scenario.model[stage.module].name, stage.stage, stage.ranks),
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
    const double rows = static_cast<double>(shape.padded_vocabulary(scenario.layout_by_module[v].tp));
    attention += samples * passes * 4 * s * s * static_cast<double>(shape.q_size() * shape.layers);
    logits += samples * passes * 2 * s * static_cast<double>(shape.hidden) * rows;
  }
  return {{"projections and MLPs", total - attention - logits}, {"attention", attention}, {"logits", logits}};
}

Parts ops_parts(const RunView& run, const Report& report) {
  Parts parts;
  for (const StageReport& stage : report.stages) {
    if (stage.ranks == 0) continue;
    parts.push_back({fmt::format("{} stage {} ({} ranks × {} ops)", run.scenario.model[stage.module].name, stage.stage,
                                 stage.ranks, stage.ops / stage.ranks),
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

void add_time(const RunView& run, const Report& r, std::vector<ExplainedNumber>& numbers) {
  const double per_step = 1 / r.step_time_s;
  const auto compute = by_spec(run, r, [](const SpecUse& u) { return u.compute_s; }, spec_name);
  const auto bubble = by_stage(run, r, [](const TimeShares& s) { return s.bubble_s; });
  numbers.push_back({"step_time_s", r.step_time_s, "s",
                     "every moment of a rank's compute stream is one of these; means over ranks", step_parts(r)});
  numbers.push_back({"compute_s", r.mean.compute_s, "s", "executed ops of the compute stream", compute});
  numbers.push_back({"bubble_s", r.mean.bubble_s, "s",
                     "idle until a peer posts its side or the step ends; weighted by ranks", bubble});
  numbers.push_back({"exposed_comm_s", r.mean.exposed_total_s(), "s", "idle while the awaited transfer runs",
                     exposed_parts(r)});
  numbers.push_back({"host_s", r.mean.host_s, "s", "idle because the host had not issued the op; weighted by ranks",
                     by_stage(run, r, [](const TimeShares& s) { return s.host_s; })});
  numbers.push_back({"copy_s", r.mean.copy_s, "s", "idle for a copy between host and device; weighted by ranks",
                     by_stage(run, r, [](const TimeShares& s) { return s.copy_s; })});
  numbers.push_back({"bubble_fraction", r.bubble_fraction(), "1", "bubble_s / step_time_s", scaled(bubble, per_step)});
  numbers.push_back({"exposed_comm_fraction", r.exposed_comm_fraction(), "1", "exposed_comm_s / step_time_s",
                     scaled(exposed_parts(r), per_step)});
  numbers.push_back({"bubble_over_ideal", r.bubble_over_ideal(), "1", "bubble_s / compute_s",
                     scaled(bubble, r.mean.compute_s > 0 ? 1 / r.mean.compute_s : 0)});
  const ModuleLayout& layout = run.scenario.layout_by_module[sink_module(run.scenario.model)];
  numbers.push_back({"bubble_over_ideal_closed_form", r.bubble_over_ideal_closed_form, "1",
                     fmt::format("(p - 1) / (v m) with p = {}, v = {}, m = {}: Narayanan et al. 2104.04473, section 2.2",
                                 layout.pp, layout.vpp, run.scenario.micro_batches(sink_module(run.scenario.model))),
                     {{"(p - 1) / (v m)", r.bubble_over_ideal_closed_form}}});
}

void add_rates(const RunView& run, const Report& r, std::vector<ExplainedNumber>& numbers) {
  const Scenario& s = run.scenario;
  const std::size_t sink = sink_module(s.model);
  const double step = r.step_time_s;
  const double peak = s.cluster.node.device.peak_flops_per_s;
  const Parts model = model_flops_parts(s, r.model_flops);
  const Parts executed = by_spec(
      run, r, [](const SpecUse& u) { return u.flops * static_cast<double>(u.executions); }, spec_name);
  const std::string peak_text =
      fmt::format("{} × {:.6g} FLOP/s ({}; {})", r.ranks, peak, s.cluster.node.device.name, s.cluster.node.device.source);
  const int replicas = s.layout_by_module[sink].dp;
  const std::string replica_text = fmt::format("{} replicas × {} micro-batches × {} samples", replicas,
                                               s.micro_batches(sink), s.batch.micro);
  numbers.push_back({"samples_per_s", r.samples_per_s, "1/s", "global batch / step time", {{replica_text, r.samples_per_s}}});
  numbers.push_back({"tokens_per_s", r.tokens_per_s, "1/s",
                     fmt::format("samples_per_s × {} tokens", s.model[sink].shape.sequence),
                     {{replica_text, r.tokens_per_s}}});
  numbers.push_back({"model_flops", r.model_flops, "FLOP",
                     "forward and backward of one step, full attention, no recomputation: Korthikanti et al. "
                     "2205.05198, equation 3",
                     model});
  numbers.push_back({"executed_flops", r.executed_flops, "FLOP", "the ops of all ranks", executed});
  numbers.push_back({"tflops_per_gpu", r.tflops_per_gpu, "TFLOP/s", "model_flops / step time / ranks",
                     scaled(model, 1e-12 / step / r.ranks)});
  numbers.push_back({"mfu", r.mfu, "1", "model_flops / step time / " + peak_text, scaled(model, 1 / step / r.ranks / peak)});
  numbers.push_back({"hfu", r.hfu, "1", "executed_flops / step time / " + peak_text,
                     scaled(executed, 1 / step / r.ranks / peak)});
  numbers.push_back({"ops", static_cast<double>(r.ops), "1", "executions on all ranks", ops_parts(run, r)});
}

void add_memory(const RunView& run, const Report& r, std::vector<ExplainedNumber>& numbers) {
  const DeviceModel& device = run.scenario.cluster.node.device;
  const auto peak = static_cast<double>(r.memory.peak_bytes);
  numbers.push_back({"peak_memory_bytes", peak, "bytes",
                     fmt::format("alive on rank {} at the peak, and the framework's constant ({})", r.memory.rank,
                                 device.source),
                     peak_parts(r)});
  numbers.push_back({"headroom_bytes", static_cast<double>(r.memory.headroom_bytes()), "bytes",
                     "allocatable memory less the peak",
                     {{device.name, static_cast<double>(r.memory.device_bytes)}, {"peak", -peak}}});
  for (int c = 0; c < category_count; ++c) {
    const std::int64_t bytes = r.memory.by_category[static_cast<std::size_t>(c)];
    if (bytes == 0) continue;
    ExplainedNumber number{fmt::format("memory_by_category/{}", name_of(static_cast<Category>(c))),
                           static_cast<double>(bytes), "bytes", "tensors alive at the peak", {}};
    for (const MemoryPart& part : memory_at_peak(run, r.memory.body, static_cast<Category>(c))) {
      number.parts.push_back({fmt::format("{} × {}", part.count, part.name), static_cast<double>(part.bytes)});
    }
    numbers.push_back(std::move(number));
  }
}

void add_ops(const RunView& run, const Report& report, Explanation& explanation) {
  constexpr std::size_t most = 12;
  const auto add = [&](bool communication) {
    std::vector<const SpecUse*> uses;
    for (const SpecUse& use : report.uses) {
      if (is_communication(run.program.op_specs[use.spec].kind) == communication) uses.push_back(&use);
    }
    const auto seconds = [&](const SpecUse& use) { return communication ? use.transfer_s : use.compute_s; };
    std::stable_sort(uses.begin(), uses.end(),
                     [&](const SpecUse* a, const SpecUse* b) { return seconds(*a) > seconds(*b); });
    for (std::size_t i = 0; i < std::min(most, uses.size()); ++i) {
      const OpSpec& spec = run.program.op_specs[uses[i]->spec];
      CostOrigin origin = explain_cost(run.program, run.scenario, spec);
      explanation.ops.push_back({spec.label, std::string(name_of(spec.kind)), std::string(name_of(spec.phase)),
                                 uses[i]->executions, seconds(*uses[i]), communication, std::move(origin.text),
                                 std::move(origin.source)});
    }
  };
  add(false);
  add(true);
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

}  // namespace

Explanation explain_report(const RunView& run, const Report& report) {
  Explanation explanation;
  explanation.title = run.scenario.name.empty() ? run.scenario.file : run.scenario.name;
  add_time(run, report, explanation.numbers);
  add_rates(run, report, explanation.numbers);
  add_memory(run, report, explanation.numbers);
  add_ops(run, report, explanation);
  std::size_t longest = 0;
  for (std::size_t s = 0; s < report.stages.size(); ++s) {
    const StageReport& stage = report.stages[s];
    explanation.path.push_back(
        {fmt::format("{} stage {}", run.scenario.model[stage.module].name, stage.stage), report.path.by_stage[s]});
    if (report.path.by_stage[s] > report.path.by_stage[longest]) longest = s;
  }
  explanation.slowest = fmt::format("{} holds {} of the critical path", explanation.path[longest].name,
                                    percent_text(report.path.by_stage[longest] / report.step_time_s));
  return explanation;
}

void explain_delay(Explanation& explanation, const RunView& run, const Report& report, double unperturbed_step_s) {
  explanation.unperturbed_step_s = unperturbed_step_s;
  explanation.delay_s = report.step_time_s - unperturbed_step_s;
  std::size_t longest = 0;
  for (std::size_t p = 0; p < run.scenario.perturb.size(); ++p) {
    explanation.delays.push_back({perturbation_text(run.scenario.perturb[p]), report.path.by_perturbation[p]});
    if (report.path.by_perturbation[p] > report.path.by_perturbation[longest]) longest = p;
  }
  if (explanation.delays.empty()) return;
  const ExplainedDelay& most = explanation.delays[longest];
  explanation.slowest = fmt::format("the step takes {} longer than without perturbations; most of it by {}, which holds {} "
                                    "of the critical path",
                                    seconds_text(explanation.delay_s), most.what,
                                    percent_text(most.path_s / report.step_time_s));
}

}  // namespace meshweave
