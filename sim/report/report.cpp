#include "sim/report/report.h"

#include <algorithm>
#include <map>

#include "sim/base/error.h"
#include "sim/program/work.h"
#include "sim/report/path_report.h"
#include "sim/report/stages.h"

namespace meshweave {
namespace {

// Sums of picoseconds over many ranks exceed 64 bits for long steps.
__extension__ using WideInteger = __int128;

double mean_seconds(WideInteger picoseconds, std::int64_t ranks) {
  return static_cast<double>(picoseconds) * 1e-12 / static_cast<double>(ranks);
}

// Exact sums of the breakdowns of many ranks.
class ShareSums {
 public:
  void add(const Breakdown& b, const std::vector<Stream>& streams, int ranks) {
    ranks_ += ranks;
    compute_ += WideInteger{b.compute.count()} * ranks;
    bubble_ += WideInteger{b.bubble.count()} * ranks;
    host_ += WideInteger{b.host.count()} * ranks;
    copy_ += WideInteger{b.copy.count()} * ranks;
    for (std::size_t s = 0; s < streams.size(); ++s) {
      exposed_[static_cast<std::size_t>(streams[s].kind)] += WideInteger{b.exposed[s].count()} * ranks;
    }
  }

  TimeShares mean() const {
    TimeShares shares;
    shares.compute_s = mean_seconds(compute_, ranks_);
    shares.bubble_s = mean_seconds(bubble_, ranks_);
    shares.host_s = mean_seconds(host_, ranks_);
    shares.copy_s = mean_seconds(copy_, ranks_);
    for (std::size_t k = 0; k < stream_kind_count; ++k) shares.exposed_s[k] = mean_seconds(exposed_[k], ranks_);
    return shares;
  }

 private:
  std::int64_t ranks_ = 0;
  WideInteger compute_ = 0, bubble_ = 0, host_ = 0, copy_ = 0;
  std::array<WideInteger, stream_kind_count> exposed_{};
};

// Time and number of executions by op spec.
struct SpecSums {
  std::vector<WideInteger> compute, transfer;
  std::vector<std::int64_t> executions;
  explicit SpecSums(std::size_t specs) : compute(specs), transfer(specs), executions(specs) {}
};

void break_down_classes(const RunView& run, const StageIndex& index, SpecSums& specs, Report& report) {
  const Program& program = run.program;
  ShareSums all;
  std::vector<ShareSums> by_stage(report.stages.size());
  std::vector<std::int64_t> compute(program.op_specs.size());
  std::vector<std::int64_t> transfer(program.op_specs.size());
  for (std::size_t c = 0; c < run.classes.size.size(); ++c) {
    const ClassLane lane(run, c);
    const std::vector<Op>& ops = lane.body().ops;
    std::fill(compute.begin(), compute.end(), 0);
    std::fill(transfer.begin(), transfer.end(), 0);
    const Breakdown breakdown =
        break_down(run, lane, [&](std::size_t op, Picoseconds time) { compute[ops[op].spec] += time.count(); });
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (!is_communication(program.spec(ops[i]).kind)) continue;
      transfer[ops[i].spec] += (lane.slice(i).end - lane.slice(i).transfer).count();
    }
    const int ranks = run.classes.size[c];
    for (std::size_t s = 0; s < program.op_specs.size(); ++s) {
      specs.compute[s] += WideInteger{compute[s]} * ranks;
      specs.transfer[s] += WideInteger{transfer[s]} * ranks;
    }
    all.add(breakdown, program.streams, ranks);
    by_stage[index.of(run.classes.representative[c])].add(breakdown, program.streams, ranks);
    report.by_class.push_back(breakdown);
  }
  report.mean = all.mean();
  for (std::size_t s = 0; s < report.stages.size(); ++s) report.stages[s].mean = by_stage[s].mean();
}

// Executions and FLOPs: counted on the bodies, so they do not depend on how ranks were folded.
void count_ops(const RunView& run, const StageIndex& index, SpecSums& specs, Report& report) {
  const Program& program = run.program;
  std::vector<std::int64_t> ranks_of_body(program.bodies.size());
  for (int rank = 0; rank < program.ranks(); ++rank) {
    const std::size_t body = program.body_of_rank[static_cast<std::size_t>(rank)];
    ++ranks_of_body[body];
    StageReport& stage = report.stages[index.of(rank)];
    ++stage.ranks;
    stage.ops += static_cast<std::int64_t>(program.bodies[body].ops.size());
  }
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
    for (const Op& op : program.bodies[b].ops) specs.executions[op.spec] += ranks_of_body[b];
  }
}

void fill_uses(const RunView& run, const SpecSums& specs, Report& report) {
  for (std::uint32_t s = 0; s < specs.executions.size(); ++s) {
    if (specs.executions[s] == 0) continue;
    SpecUse use;
    use.spec = s;
    use.executions = specs.executions[s];
    use.flops = work_of(run.program, run.program.op_specs[s]).flops;
    use.compute_s = mean_seconds(specs.compute[s], report.ranks);
    use.transfer_s = mean_seconds(specs.transfer[s], report.ranks);
    report.ops += use.executions;
    report.executed_flops += use.flops * static_cast<double>(use.executions);
    report.uses.push_back(use);
  }
}

void fill_memory(const RunView& run, const StageIndex& index, Report& report) {
  const DeviceModel& device = run.scenario.cluster.node.device;
  MemoryReport& memory = report.memory;
  memory.framework_bytes = std::llround(device.framework_bytes);
  memory.device_bytes = std::llround(device.memory_bytes);
  memory.error = device.memory_error;
  memory.peak_bytes = -1;
  for (int rank = 0; rank < run.program.ranks(); ++rank) {
    const std::uint32_t body = run.program.body_of_rank[static_cast<std::size_t>(rank)];
    const Liveness& liveness = run.liveness[body];
    const std::int64_t peak = liveness.peak_bytes + memory.framework_bytes;
    StageReport& stage = report.stages[index.of(rank)];
    stage.peak_memory_bytes = std::max(stage.peak_memory_bytes, peak);
    if (peak <= memory.peak_bytes) continue;
    memory.rank = rank;
    memory.body = body;
    memory.peak_bytes = peak;
    memory.by_category = liveness.peak;
  }
  memory.verdict = verdict_of(memory.peak_bytes, device);
}

// Forward passes follow each other without draining the pipeline.
std::optional<double> closed_form_bubble(const Scenario& scenario) {
  if (scenario.pass == Pass::forward) return std::nullopt;
  const std::size_t sink = sink_module(scenario.model);
  const ModuleLayout& layout = scenario.layout_by_module[sink];
  const double micro_batches = scenario.micro_batches(sink);
  return (layout.pp - 1) / (layout.vpp * micro_batches);
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits: return "fits";
    case Verdict::tight: return "tight";
    case Verdict::out_of_memory: return "out of memory";
  }
  bug("unknown verdict");
}

Verdict verdict_of(std::int64_t peak_bytes, const DeviceModel& device) {
  const std::int64_t device_bytes = std::llround(device.memory_bytes);
  if (peak_bytes > device_bytes) return Verdict::out_of_memory;
  const double with_error = static_cast<double>(peak_bytes) * (1 + device.memory_error);
  return with_error > static_cast<double>(device_bytes) ? Verdict::tight : Verdict::fits;
}

double model_flops_of_step(const Scenario& scenario) {
  const std::size_t sink = sink_module(scenario.model);
  const std::int64_t rows =
      scenario.model[sink].shape.padded_vocabulary(scenario.layout_by_module[sink].weight_shards());
  double flops = 0;
  for (std::size_t v = 0; v < num_vertices(scenario.model); ++v) {
    const std::int64_t samples = v == sink ? scenario.batch.global : scenario.batch.samples_with_items();
    flops +=
        model_flops_per_sample(scenario.model, v, rows, scenario.pass == Pass::train) * static_cast<double>(samples);
  }
  return flops;
}

Report make_report(const RunView& run) {
  const Scenario& scenario = run.scenario;
  const StageIndex index(run.program);
  Report report;
  report.executor = run.executor;
  report.ranks = run.program.ranks();
  report.stages = index.empty_stages();
  report.links = run.replay.links;

  SpecSums specs(run.program.op_specs.size());
  break_down_classes(run, index, specs, report);
  count_ops(run, index, specs, report);
  fill_uses(run, specs, report);
  fill_memory(run, index, report);
  report.path = make_path_report(run, index);

  const double sequence = static_cast<double>(scenario.model[sink_module(scenario.model)].shape.sequence);
  const double peak = scenario.cluster.node.device.peak_flops_per_s * report.ranks;
  report.step_time_s = seconds_from_picoseconds(run.replay.step);
  report.latency_s = seconds_from_picoseconds(run.replay.begin);
  report.samples_per_s = static_cast<double>(scenario.batch.global) / report.step_time_s;
  report.tokens_per_s = report.samples_per_s * sequence;
  report.model_flops = model_flops_of_step(scenario);
  report.tflops_per_gpu = report.model_flops / report.step_time_s / report.ranks * 1e-12;
  report.mfu = report.model_flops / report.step_time_s / peak;
  report.hfu = report.executed_flops / report.step_time_s / peak;
  report.bubble_over_ideal_closed_form = closed_form_bubble(scenario);
  return report;
}

std::vector<std::pair<std::string_view, double>> metrics(const Report& r) {
  return {{"step_time_s", r.step_time_s},
          {"samples_per_s", r.samples_per_s},
          {"tokens_per_s", r.tokens_per_s},
          {"tflops_per_gpu", r.tflops_per_gpu},
          {"mfu", r.mfu},
          {"hfu", r.hfu},
          {"bubble_fraction", r.bubble_fraction()},
          {"exposed_comm_fraction", r.exposed_comm_fraction()},
          {"peak_memory_bytes", static_cast<double>(r.memory.peak_bytes)},
          {"headroom_bytes", static_cast<double>(r.memory.headroom_bytes())}};
}

std::optional<double> metric(const Report& report, std::string_view key) {
  for (const auto& [name, value] : metrics(report)) {
    if (name == key) return value;
  }
  return std::nullopt;
}

}  // namespace meshweave
