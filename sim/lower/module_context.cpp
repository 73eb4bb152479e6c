#include "sim/lower/module_context.h"

namespace meshweave {

namespace {

std::vector<Dimension> with_features(std::vector<Dimension> dimensions, std::initializer_list<Dimension> features) {
  dimensions.insert(dimensions.end(), features.begin(), features.end());
  return dimensions;
}

}  // namespace

std::vector<Dimension> ModuleContext::tokens() const {
  return {{shape().sequence, 0}, {scenario->batch.micro, dp_axis}};
}

std::vector<Dimension> ModuleContext::local_tokens() const {
  std::vector<Dimension> dimensions = tokens();
  if (sequence_parallel()) dimensions[0] = {shape().sequence / tp(), tp_axis};
  return dimensions;
}

std::vector<Dimension> ModuleContext::tokens(std::initializer_list<Dimension> features) const {
  return with_features(tokens(), features);
}

std::vector<Dimension> ModuleContext::local_tokens(std::initializer_list<Dimension> features) const {
  return with_features(local_tokens(), features);
}

ModuleContext make_context(ProgramBuilder& builder, const Scenario& scenario, const ModulePlan& plan) {
  ModuleContext c;
  c.scenario = &scenario;
  c.plan = &plan;
  c.module = static_cast<std::uint8_t>(plan.module);
  const auto axis = [&](Axis a) { return plan.grid.degree(a) > 1 ? mask_of(a) : AxisMask{0}; };
  c.tp_axis = axis(Axis::tp);
  c.dp_axis = axis(Axis::dp);
  c.pp_axis = axis(Axis::pp);
  if (c.tp() > 1) {
    c.tp_group = builder.group({"tp", c.module, {{Axis::tp, 1, c.tp()}}});
    c.tensor_stream = builder.stream(StreamKind::tensor);
  }
  if (c.pp_axis != 0) c.pipeline_stream = builder.stream(StreamKind::pipeline);
  c.data_stream = builder.stream(StreamKind::data);
  c.loss_scale = 1.0 / (static_cast<double>(scenario.batch.global) * static_cast<double>(c.shape().sequence));
  return c;
}

}  // namespace meshweave
