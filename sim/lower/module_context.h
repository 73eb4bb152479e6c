// What the lowering of one module needs everywhere: its shape, layout, axes, groups and streams.
#pragma once

#include <vector>

#include "sim/layout/plan.h"
#include "sim/program/builder.h"

namespace meshweave {

struct ModuleContext {
  const Scenario* scenario = nullptr;
  const ModulePlan* plan = nullptr;
  std::uint8_t module = 0;  // vertex of the graph
  std::uint16_t grid = 0;   // index into Program::grids
  // Masks are empty for axes of degree 1, so that nothing is sharded or partial over them.
  AxisMask tp_axis = 0;
  AxisMask tsp_axis = 0;
  AxisMask pp_axis = 0;
  AxisMask dp_axis = 0;
  AxisMask sequence_axes = 0;  // ulysses, cp or tsp: they share the tokens of a sequence
  AxisMask data_axes = 0;      // dp, cp, ulysses: their ranks hold the same parameters
  std::uint16_t tp_group = no_group;
  std::uint16_t ulysses_group = no_group;
  std::uint16_t sequence_group = no_group;  // of cp or tsp: the ring, or the gather
  std::uint8_t tensor_stream = 0;
  std::uint8_t context_stream = 0;  // keys, values and heads between sequence shards
  std::uint8_t weight_stream = 0;   // visiting weights of tsp and their gradients
  std::uint8_t pipeline_stream = 0;
  std::uint8_t data_stream = 0;
  std::uint8_t next_in_ring = 0, previous_in_ring = 0;  // peers along cp or tsp
  // The index along cp or tsp of the ranks that are lowered, where the work of attention depends on it; else −1.
  int sequence_index = -1;
  double loss_scale = 1;  // 1 / tokens of the global batch

  const TransformerShape& shape() const { return scenario->model[plan->module].shape; }
  const ModuleLayout& layout() const { return scenario->layout_by_module[plan->module]; }
  int tp() const { return plan->grid.degree(Axis::tp); }
  int tsp() const { return plan->grid.degree(Axis::tsp); }
  int ring() const { return plan->grid.degree(Axis::cp) * tsp(); }  // sequence shards that share keys and values
  bool sequence_parallel() const { return layout().sequence_parallel && tp() > 1; }
  Partition partition() const { return tsp() > 1 ? layout().tsp.partition : layout().cp.partition; }

  // Token dimensions [sequence, batch] of a sequence shard, and as the ranks of a tensor-parallel group hold them
  // between the tensor-parallel regions (a share each under sequence parallelism).
  std::vector<Dimension> tokens() const;
  std::vector<Dimension> local_tokens() const;
  // tokens() or local_tokens() with features appended.
  std::vector<Dimension> tokens(std::initializer_list<Dimension> features) const;
  std::vector<Dimension> local_tokens(std::initializer_list<Dimension> features) const;
  // The sequence dimension gathered over cp or tsp, in the order of the ranks (zigzag) or of the sequence.
  Dimension gathered_sequence(bool in_rank_order) const;
  // `size` split over tensor parallelism: the local extent.
  Dimension tp_sharded(std::int64_t size) const { return {size / tp(), tp_axis}; }
  // A weight's dimension, of which each rank of tp or tsp holds a part.
  Dimension weight_sharded(std::int64_t size) const {
    return {size / (tp() * tsp()), static_cast<AxisMask>(tp_axis | tsp_axis)};
  }
  DType activation_type() const { return scenario->precision.activations; }
};

// A group's pattern over all members of several axes; the order of its members is that of a dimension sharded over
// them.
std::vector<AxisPattern> whole_axes(const ModuleContext& context, AxisMask axes);

// Adds the module's grid, groups, peers and streams to the program.
ModuleContext make_context(ProgramBuilder& builder, const Scenario& scenario, const ModulePlan& plan);

}  // namespace meshweave
