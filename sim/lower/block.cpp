#include "sim/lower/block.h"

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/narrow.h"

namespace meshweave {

TensorSpec make_spec(std::string name, const std::vector<Dimension>& dimensions, DType dtype, AxisMask partial,
                     std::uint16_t grid) {
  ensure(dimensions.size() <= max_dimensions, "too many dimensions");
  TensorSpec spec;
  spec.name = std::move(name);
  std::copy(dimensions.begin(), dimensions.end(), spec.dimensions.begin());
  spec.rank = static_cast<std::uint8_t>(dimensions.size());
  spec.dtype = dtype;
  spec.partial = partial;
  spec.grid = grid;
  return spec;
}

Value BlockRecorder::add(BlockValue value) {
  block_.values.push_back(std::move(value));
  return static_cast<Value>(block_.values.size() - 1);
}

Value BlockRecorder::input(const TensorSpec& spec) { return block_.input = external(Role::input, spec); }

Value BlockRecorder::external(Role role, const TensorSpec& spec) {
  BlockValue value;
  value.spec = spec;
  value.role = role;
  return add(std::move(value));
}

Value BlockRecorder::parameter(std::string name, std::vector<Dimension> dimensions, bool tied,
                               const std::array<std::int64_t, 3>& packed) {
  Parameter p;
  p.name = std::move(name);
  p.spec = make_spec(p.name, dimensions, context_.scenario->precision.parameters, 0, context_.grid);
  p.spec.packed = packed;
  p.tied = tied;
  BlockValue value;
  value.spec = p.spec;
  value.role = Role::parameter;
  value.parameter = static_cast<std::uint32_t>(block_.parameters.size());
  p.value = add(std::move(value));
  block_.parameters.push_back(std::move(p));
  return block_.parameters.back().value;
}

Value BlockRecorder::local(std::string name, std::vector<Dimension> dimensions, DType dtype, AxisMask partial,
                           Category category) {
  BlockValue value;
  value.spec = make_spec(std::move(name), dimensions, dtype, partial, context_.grid);
  value.category = category;
  return add(std::move(value));
}

Value BlockRecorder::local_like(std::string name, Value like) {
  BlockValue value;
  value.spec = block_.spec(like);
  value.spec.name = std::move(name);
  return add(std::move(value));
}

void BlockRecorder::op(OpKind kind, std::string label, std::vector<Value> reads, std::vector<Value> writes,
                       const OpAttributes& attributes) {
  BlockOp op;
  op.spec.kind = kind;
  op.spec.module = context_.module;
  op.spec.attributes = attributes;
  op.spec.label = std::move(label);
  op.reads = std::move(reads);
  op.writes = std::move(writes);
  op.region = region_;
  block_.forward.push_back(std::move(op));
}

void BlockRecorder::tensor_op(OpKind kind, std::string label, Value read, Value write, const OpAttributes& attributes) {
  op(kind, std::move(label), {read}, {write}, attributes);
  block_.forward.back().spec.stream = context_.tensor_stream;
  block_.forward.back().spec.group = context_.tp_group;
}

void BlockRecorder::collective(OpKind kind, std::string label, std::uint8_t stream, std::uint16_t group,
                               std::vector<Value> reads, std::vector<Value> writes, const OpAttributes& attributes) {
  op(kind, std::move(label), std::move(reads), std::move(writes), attributes);
  block_.forward.back().spec.stream = stream;
  block_.forward.back().spec.group = group;
}

void BlockRecorder::hop(std::string label, std::uint8_t stream, std::vector<Value> sent, std::vector<Value> received,
                        const OpAttributes& attributes) {
  BlockOp op =
      ring_hop(context_, Phase::forward, std::move(label), stream, std::move(sent), std::move(received), attributes);
  op.region = region_;
  block_.forward.push_back(std::move(op));
}

void BlockRecorder::begin_region(std::function<void(Adjoint&)> backward) {
  region_ = narrow<std::int16_t>(block_.regions.size(), "regions of a block");
  block_.regions.push_back(std::move(backward));
}

BlockOp ring_hop(const ModuleContext& context, Phase phase, std::string label, std::uint8_t stream,
                 std::vector<Value> sent, std::vector<Value> received, const OpAttributes& attributes) {
  BlockOp op;
  op.spec.kind = OpKind::point_to_point;
  op.spec.phase = phase;
  op.spec.module = context.module;
  op.spec.stream = stream;
  op.spec.label = std::move(label);
  op.spec.attributes = attributes;
  op.reads = std::move(sent);
  op.writes = std::move(received);
  op.send_to = context.next_in_ring;
  op.receive_from = context.previous_in_ring;
  return op;
}

void finish(ProgramBuilder& builder, Block& block) {
  std::vector<bool> read(block.values.size(), false);
  for (const auto* part : {&block.forward, &block.backward, &block.weight}) {
    for (const BlockOp& op : *part) {
      for (Value v : op.reads) read[v] = true;
    }
  }
  for (BlockValue& value : block.values) value.tensor_spec = builder.tensor_spec(value.spec);
  for (auto* part : {&block.forward, &block.backward, &block.weight}) {
    for (BlockOp& op : *part) {
      std::erase_if(op.writes, [&](Value v) { return block.values[v].secondary && !read[v]; });
      op.spec.reads.clear();
      op.spec.writes.clear();
      for (Value v : op.reads) op.spec.reads.push_back(block.values[v].tensor_spec);
      for (Value v : op.writes) op.spec.writes.push_back(block.values[v].tensor_spec);
      op.op_spec = builder.op_spec(op.spec);
    }
  }
}

}  // namespace meshweave
