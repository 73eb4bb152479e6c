// What the lowering of one module needs everywhere: its shape, layout, axes, groups and streams.
#pragma once

#include <vector>

#include "sim/layout/plan.h"
#include "sim/program/builder.h"

namespace meshweave {

struct ModuleContext {
  const Scenario* scenario = nullptr;
  const ModulePlan* plan = nullptr;
  std::uint8_t module = 0;
  // Masks are empty for axes of degree 1, so that nothing is sharded or partial over them.
  AxisMask tp_axis = 0;
  AxisMask dp_axis = 0;
  AxisMask pp_axis = 0;
  std::uint16_t tp_group = no_group;
  std::uint8_t tensor_stream = 0;
  std::uint8_t pipeline_stream = 0;
  std::uint8_t data_stream = 0;
  double loss_scale = 1;  // 1 / tokens of the global batch

  const TransformerShape& shape() const { return scenario->model[plan->module].shape; }
  const ModuleLayout& layout() const { return scenario->layout_by_module[plan->module]; }
  int tp() const { return plan->grid.degree(Axis::tp); }
  bool sequence_parallel() const { return layout().sequence_parallel && tp() > 1; }

  // Token dimensions [sequence, batch] as a whole, and as the ranks of a tensor-parallel group hold them between
  // the tensor-parallel regions (a share each under sequence parallelism).
  std::vector<Dimension> tokens() const;
  std::vector<Dimension> local_tokens() const;
  // tokens() or local_tokens() with features appended.
  std::vector<Dimension> tokens(std::initializer_list<Dimension> features) const;
  std::vector<Dimension> local_tokens(std::initializer_list<Dimension> features) const;
  // `size` split over tensor parallelism: the local extent.
  Dimension tp_sharded(std::int64_t size) const { return {size / tp(), tp_axis}; }
  DType activation_type() const { return scenario->precision.activations; }
};

ModuleContext make_context(ProgramBuilder& builder, const Scenario& scenario, const ModulePlan& plan);

}  // namespace meshweave
