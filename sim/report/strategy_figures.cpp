#include "sim/report/strategy_figures.h"

#include "sim/program/work.h"

namespace meshweave {
namespace {

// Communication of a layer itself: not what its stage or its replicas exchange.
bool belongs_to_layer(const Program& program, const Op& op, const OpSpec& spec) {
  if (op.layer < 0) return false;
  if (!is_communication(spec.kind)) return true;
  const Purpose purpose = purpose_of(program.streams[spec.stream]);
  return purpose != Purpose::pipeline && purpose != Purpose::data;
}

bool is_forward(const OpSpec& spec) { return spec.phase == Phase::forward; }

bool is_backward(const OpSpec& spec) {
  return spec.phase == Phase::backward_data || spec.phase == Phase::backward_weight || spec.phase == Phase::recompute;
}

LayerWork executed_layer(const Program& program, double layers, double micro_batches) {
  const auto bytes = [&](bool (*phase)(const OpSpec&)) {
    return count_traffic(
               program,
               [&](const Op& op, const OpSpec& spec) { return belongs_to_layer(program, op, spec) && phase(spec); })
        .total();
  };
  LayerWork work;
  work.forward_bytes = bytes(is_forward);
  work.backward_bytes = bytes(is_backward);
  std::vector<double> flops(program.op_specs.size());
  for (std::uint32_t s = 0; s < flops.size(); ++s) flops[s] = work_of(program, program.op_specs[s]).flops;
  std::vector<double> ranks_of_body(program.bodies.size());
  for (const std::uint32_t body : program.body_of_rank) ++ranks_of_body[body];
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
    for (const Op& op : program.bodies[b].ops) {
      const OpSpec& spec = program.spec(op);
      if (op.layer < 0 || flops[op.spec] == 0) continue;
      const double share = flops[op.spec] * ranks_of_body[b] / program.ranks();
      if (is_forward(spec)) work.forward_flops += share;
      if (is_backward(spec)) work.backward_flops += share;
    }
  }
  // Means over the ranks of all stages, each of which has its part of the layers.
  const double executions = layers * micro_batches;
  for (double* each : {&work.forward_bytes, &work.backward_bytes, &work.forward_flops, &work.backward_flops}) {
    *each /= executions;
  }
  return work;
}

}  // namespace

double StrategyFigures::exposed_total_s() const {
  double sum = 0;
  for (const double each : exposed_s) sum += each;
  return sum;
}

StrategyFigures figures_of(const RunView& run, const Report& report) {
  const Scenario& scenario = run.scenario;
  const ModuleLayout& layout = scenario.layout_by_module[0];
  StrategyFigures figures;
  figures.ranks = report.ranks;
  figures.dp = layout.dp;
  figures.global_batch = scenario.batch.global;
  figures.micro_batch = scenario.batch.micro;
  figures.micro_batches = scenario.micro_batches(0);
  figures.sequence = scenario.model[0].shape.sequence;
  figures.step_time_s = report.step_time_s;
  figures.memory = report.memory;
  figures.traffic = count_traffic(run.program);
  figures.flops = report.executed_flops / report.ranks;
  for (std::size_t c = 0; c < report.by_class.size(); ++c) {
    const double share = static_cast<double>(run.classes.size[c]) / report.ranks;
    figures.host_s += seconds_from_picoseconds(report.by_class[c].host) * share;
    for (std::size_t s = 0; s < run.program.streams.size(); ++s) {
      const Picoseconds exposed = report.by_class[c].exposed[s];
      if (exposed.count() == 0) continue;
      figures.exposed_s[static_cast<std::size_t>(purpose_of(run.program.streams[s]))] +=
          seconds_from_picoseconds(exposed) * share;
    }
  }
  const double layers_of_stage = static_cast<double>(scenario.model[0].shape.layers) / layout.pp;
  figures.layer = executed_layer(run.program, layers_of_stage, static_cast<double>(figures.micro_batches));
  figures.layer_form = closed_form_of_layer(scenario);
  figures.states_form = closed_form_of_states(scenario);
  return figures;
}

}  // namespace meshweave
