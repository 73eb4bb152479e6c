#include "sim/lower/adjoint.h"

#include <algorithm>

#include "sim/base/error.h"

namespace meshweave {

void Adjoint::run() {
  count_readers();
  if (recompute_ == Recompute::full) re_emit_all();
  contributions_.resize(block_.values.size());
  if (block_.output != no_value) {
    BlockValue gradient;
    gradient.spec = gradient_spec(block_.output);
    gradient.role = Role::output_gradient;
    block_.output_gradient = add(std::move(gradient));
    contributions_[block_.output].push_back(block_.output_gradient);
  }
  std::int16_t region = -1;
  for (std::size_t i = block_.forward.size(); i-- > 0;) {
    const BlockOp op = block_.forward[i];
    if (op.region < 0) {
      reverse(op);
    } else if (op.region != region) {
      block_.regions[static_cast<std::size_t>(op.region)](*this);
    }
    region = op.region;
  }
  if (block_.input != no_value) {
    block_.input_gradient = gradient(block_.input);
    block_.values[block_.input_gradient].of_input = true;
  }
  for (BlockOp& op : late_) weights_.push_back(std::move(op));
  flush_weights();
}

Value Adjoint::add(BlockValue value) {
  block_.values.push_back(std::move(value));
  return static_cast<Value>(block_.values.size() - 1);
}

void Adjoint::count_readers() {
  readers_.resize(block_.values.size(), 0);
  for (const BlockOp& op : block_.forward) {
    for (Value v : op.reads) ++readers_[v];
  }
}

// The spec of a value's whole gradient.
TensorSpec Adjoint::gradient_spec(Value v) const {
  TensorSpec spec = block_.spec(v);
  spec.name = "d(" + spec.name + ")";
  spec.dtype = context_.activation_type();
  spec.partial = 0;
  return spec;
}

// A new value for a contribution to the gradient of `v`, made by `op`.
Value Adjoint::contribution(Value v, const BlockOp& op, AxisMask partial) {
  BlockValue value;
  value.spec = gradient_spec(v);
  value.spec.partial = partial;
  if (readers_[v] > 1) value.spec.name += " from " + op.spec.label;
  value.category = Category::workspace;
  const Value g = add(std::move(value));
  contributions_[v].push_back(g);
  return g;
}

void Adjoint::contribute(Value v, Value g) {
  contributions_.resize(block_.values.size());
  contributions_[v].push_back(g);
}

// The forward value as the backward may read it: saved, or made again.
Value Adjoint::needed(Value v) {
  const BlockValue& value = block_.values[v];
  const bool again =
      value.role == Role::local && value.re_emit != ReEmit::kept &&
      (value.re_emit == ReEmit::always || (value.re_emit == ReEmit::selective && recompute_ == Recompute::selective));
  if (!again) {
    const auto it = full_.find(v);
    return it == full_.end() ? v : it->second;
  }
  const auto it = again_.find(v);
  return it == again_.end() ? re_emit(producer(v), again_, v) : it->second;
}

const BlockOp& Adjoint::producer(Value v) const {
  for (const BlockOp& op : block_.forward) {
    if (std::find(op.writes.begin(), op.writes.end(), v) != op.writes.end()) return op;
  }
  bug("a value without producer: " + block_.spec(v).name);
}

// Appends a copy of a forward op that makes fresh values of its outputs; returns the fresh value of `v`.
Value Adjoint::re_emit(const BlockOp& forward, std::map<Value, Value>& fresh, Value v) {
  BlockOp op = forward;
  op.spec.phase = Phase::recompute;
  for (Value& r : op.reads) r = needed(r);
  for (Value& w : op.writes) {
    const Value original = w;
    BlockValue value = block_.values[original];
    if (value.alias != no_value) value.alias = needed(value.alias);
    value.re_emit = ReEmit::never;
    w = add(std::move(value));
    fresh[original] = w;
  }
  const Value result = v == no_value ? no_value : fresh.at(v);
  push(std::move(op));
  return result;
}

void Adjoint::re_emit_all() {
  // Within the re-emitted forward every value is the fresh one, gathers included; behind it, gathers are made
  // again from what they gather.
  const auto fresh = [&](Value v) {
    const auto it = full_.find(v);
    return it == full_.end() ? v : it->second;
  };
  const auto kept = [&](Value v) { return block_.values[v].re_emit == ReEmit::kept; };
  for (std::size_t i = 0; i < block_.forward.size(); ++i) {
    BlockOp op = block_.forward[i];
    if (!op.writes.empty() && std::all_of(op.writes.begin(), op.writes.end(), kept)) continue;
    op.spec.phase = Phase::recompute;
    for (Value& r : op.reads) r = fresh(r);
    for (Value& w : op.writes) {
      if (block_.values[w].role != Role::local) continue;
      const Value original = w;
      BlockValue value = block_.values[original];
      if (value.alias != no_value) value.alias = fresh(value.alias);
      value.re_emit = ReEmit::never;
      w = add(std::move(value));
      if (!kept(original)) full_[original] = w;
    }
    push(std::move(op));
  }
  readers_.resize(block_.values.size(), 0);
}

// Appends to the backward; waiting weight gradients stand behind the next communication, else before the next
// compute op.
void Adjoint::push(BlockOp op) {
  const bool communication = is_communication(op.spec.kind);
  const bool uses_weights = std::any_of(weights_.begin(), weights_.end(), [&](const BlockOp& weight) {
    return std::any_of(op.reads.begin(), op.reads.end(), [&](Value r) {
      return std::find(weight.writes.begin(), weight.writes.end(), r) != weight.writes.end();
    });
  });
  if (!communication || uses_weights) flush_weights();
  block_.backward.push_back(std::move(op));
  if (communication) flush_weights();
  contributions_.resize(block_.values.size());
  readers_.resize(block_.values.size(), 0);
}

void Adjoint::emit(OpKind kind, std::string label, std::vector<Value> reads, std::vector<Value> writes,
                   const OpAttributes& attributes) {
  push(make_op(kind, Phase::backward_data, std::move(label), std::move(reads), std::move(writes), attributes));
}

BlockOp Adjoint::make_op(OpKind kind, Phase phase, std::string label, std::vector<Value> reads,
                         std::vector<Value> writes, const OpAttributes& attributes) const {
  BlockOp op;
  op.spec.kind = kind;
  op.spec.phase = phase;
  op.spec.module = context_.module;
  op.spec.label = std::move(label);
  op.spec.attributes = attributes;
  op.reads = std::move(reads);
  op.writes = std::move(writes);
  return op;
}

void Adjoint::emit_weight(OpKind kind, std::string label, std::vector<Value> reads, std::vector<Value> gradients,
                          const OpAttributes& attributes) {
  BlockOp op =
      make_op(kind, Phase::backward_weight, std::move(label), std::move(reads), std::move(gradients), attributes);
  // A main gradient is added to.
  for (const Value g : op.writes) {
    if (block_.values[g].role != Role::main_gradient) continue;
    op.reads.push_back(g);
    op.spec.attributes.accumulates = facts_of(kind).accumulation != Accumulation::never;
  }
  weights_.push_back(std::move(op));
}

void Adjoint::emit_weight_late(OpKind kind, std::string label, std::vector<Value> reads, std::vector<Value> gradients) {
  emit_weight(kind, std::move(label), std::move(reads), std::move(gradients), {});
  late_.push_back(std::move(weights_.back()));
  weights_.pop_back();
}

void Adjoint::flush_weights() {
  std::vector<BlockOp>& part = split_weight_ ? block_.weight : block_.backward;
  for (BlockOp& op : weights_) part.push_back(std::move(op));
  weights_.clear();
}

// A communication of the gradients of what `forward` moved, over its group and stream.
std::vector<Value> Adjoint::communicate(OpKind kind, const std::string& label, const BlockOp& forward,
                                        std::vector<Value> reads, std::vector<BlockValue> written,
                                        const OpAttributes& attributes) {
  std::vector<Value> writes;
  for (BlockValue& value : written) writes.push_back(add(std::move(value)));
  BlockOp op = make_op(kind, Phase::backward_data, label, std::move(reads), writes, attributes);
  op.spec.stream = forward.spec.stream;
  op.spec.group = forward.spec.group;
  push(std::move(op));
  return writes;
}

// The main gradient of a parameter, partial over `partial`; a tied table's also over the stages that share it.
Value Adjoint::main_gradient(Value parameter, AxisMask partial) {
  Parameter& p = block_.parameters[block_.values[parameter].parameter];
  if (p.tied) partial = static_cast<AxisMask>(partial | context_.pp_axis);
  if (p.main_gradient == no_value) {
    BlockValue value;
    value.spec = p.spec;
    value.spec.name = "grad(" + p.name + ")";
    value.spec.dtype = context_.scenario->precision.main_gradients;
    value.spec.partial = partial;
    value.role = Role::main_gradient;
    value.parameter = block_.values[parameter].parameter;
    p.main_gradient = add(std::move(value));
  }
  ensure(block_.spec(p.main_gradient).partial == partial, "gradients of one parameter are partial over other axes");
  return p.main_gradient;
}

bool Adjoint::has_gradient(Value v) const { return v < contributions_.size() && !contributions_[v].empty(); }

// The sum of the contributions; it may still be partial. The sum is kept, so it is made once.
Value Adjoint::summed(Value v) {
  std::vector<Value> parts = contributions_[v];
  ensure(!parts.empty(), "no gradient for " + block_.spec(v).name);
  if (parts.size() == 1) return parts[0];
  for (Value& part : parts) {
    if (block_.spec(part).partial != block_.spec(parts[0]).partial) part = reduced(part, v);
  }
  BlockValue sum;
  sum.spec = gradient_spec(v);
  sum.spec.partial = block_.spec(parts[0]).partial;
  sum.category = Category::workspace;
  const Value g = add(std::move(sum));
  emit(OpKind::add, block_.spec(v).name + " gradient", parts, {g});
  contributions_[v] = {g};
  return g;
}

// All-reduced in place when partial.
Value Adjoint::reduced(Value g, Value of) {
  if (block_.spec(g).partial == 0) return g;
  ensure(block_.spec(g).partial == context_.tp_axis, "a gradient is partial over other axes than tp");
  BlockValue whole = block_.values[g];
  whole.spec = gradient_spec(of);
  whole.alias = g;
  BlockOp tensor;
  tensor.spec.stream = context_.tensor_stream;
  tensor.spec.group = context_.tp_group;
  return communicate(OpKind::all_reduce, block_.spec(of).name + " gradient all-reduce", tensor, {g}, {whole}, {})[0];
}

// The spec of a visitor's gradient is that of the weight, in the precision of main gradients.
Value Adjoint::weight_gradient(Value weight, AxisMask partial) {
  if (is_parameter(weight)) return main_gradient(weight, partial);
  BlockValue value;
  value.spec = gradient_spec(weight);
  value.spec.dtype = context_.scenario->precision.main_gradients;
  value.spec.partial = partial;
  value.category = Category::workspace;
  const Value g = add(std::move(value));
  contribute(weight, g);
  return g;
}

Value Adjoint::gradient(Value v) {
  const Value g = reduced(summed(v), v);
  contributions_[v] = {g};
  return g;
}

void derive_backward(const ModuleContext& context, Block& block, Recompute recompute, bool split_weight) {
  Adjoint(context, block, recompute, split_weight).run();
}

}  // namespace meshweave
