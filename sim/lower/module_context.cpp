#include "sim/lower/module_context.h"

#include "sim/base/narrow.h"

namespace meshweave {

namespace {

std::vector<Dimension> with_features(std::vector<Dimension> dimensions, std::initializer_list<Dimension> features) {
  dimensions.insert(dimensions.end(), features.begin(), features.end());
  return dimensions;
}

}  // namespace

std::vector<Dimension> ModuleContext::tokens() const {
  const ModuleLayout& l = layout();
  Dimension sequence{shape().sequence / (l.cp.degree * l.tsp.degree), sequence_axes};
  if (ring() > 1 && partition() == Partition::zigzag) sequence.zigzag = narrow<std::uint16_t>(ring(), "zigzag parts");
  return {sequence, {scenario->batch.micro, dp_axis}};
}

Dimension ModuleContext::gathered_sequence(bool in_rank_order) const {
  Dimension sequence = tokens()[0];
  sequence.size *= ring();
  sequence.sharded_over &= static_cast<AxisMask>(~(mask_of(Axis::cp) | mask_of(Axis::tsp)));
  if (!in_rank_order) sequence.zigzag = 0;
  return sequence;
}

std::vector<Dimension> ModuleContext::local_tokens() const {
  std::vector<Dimension> dimensions = tokens();
  if (sequence_parallel()) {
    dimensions[0].size /= tp();
    dimensions[0].sharded_over = static_cast<AxisMask>(dimensions[0].sharded_over | tp_axis);
  }
  return dimensions;
}

std::vector<Dimension> ModuleContext::tokens(std::initializer_list<Dimension> features) const {
  return with_features(tokens(), features);
}

std::vector<Dimension> ModuleContext::local_tokens(std::initializer_list<Dimension> features) const {
  return with_features(local_tokens(), features);
}

std::vector<AxisPattern> whole_axes(const ModuleContext& context, AxisMask axes) {
  std::vector<AxisPattern> patterns;
  for (int a = 0; a < axis_count; ++a) {
    const Axis axis = static_cast<Axis>(a);
    if ((axes & mask_of(axis)) != 0) patterns.push_back({axis, 1, context.plan->grid.degree(axis)});
  }
  return patterns;
}

ModuleContext make_context(ProgramBuilder& builder, const Scenario& scenario, const ModulePlan& plan) {
  ModuleContext c;
  c.scenario = &scenario;
  c.plan = &plan;
  c.module = narrow<std::uint8_t>(plan.module, "modules");
  c.grid = builder.grid(plan.grid);
  const auto axis = [&](Axis a) { return plan.grid.degree(a) > 1 ? mask_of(a) : AxisMask{0}; };
  c.tp_axis = axis(Axis::tp);
  c.tsp_axis = axis(Axis::tsp);
  c.dp_axis = axis(Axis::dp);
  c.pp_axis = axis(Axis::pp);
  const auto context_axes = static_cast<AxisMask>(axis(Axis::ulysses) | axis(Axis::cp));
  c.sequence_axes = static_cast<AxisMask>(context_axes | c.tsp_axis);
  c.data_axes = static_cast<AxisMask>(context_axes | c.dp_axis);
  const auto group = [&](Axis a) {
    return builder.group({std::string(name_of(a)), c.grid, {{a, 1, plan.grid.degree(a)}}});
  };
  if (c.tp() > 1) {
    c.tp_group = group(Axis::tp);
    c.tensor_stream = builder.stream(StreamKind::tensor);
  }
  if (c.sequence_axes != 0) c.context_stream = builder.stream(Purpose::context);
  if (axis(Axis::ulysses) != 0) c.ulysses_group = group(Axis::ulysses);
  if (c.ring() > 1) {
    const Axis ring = c.tsp() > 1 ? Axis::tsp : Axis::cp;
    c.sequence_group = group(ring);
    c.next_in_ring = builder.peer(peer_along(plan.grid, ring, 1));
    c.previous_in_ring = builder.peer(peer_along(plan.grid, ring, -1));
  }
  if (c.tsp() > 1) c.weight_stream = builder.stream(Purpose::weights);
  if (c.pp_axis != 0) c.pipeline_stream = builder.stream(StreamKind::pipeline);
  c.data_stream = builder.stream(StreamKind::data);
  c.loss_scale = 1.0 / (static_cast<double>(scenario.batch.global) * static_cast<double>(c.shape().sequence));
  return c;
}

}  // namespace meshweave
