#include "sim/lower/layer_parts.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace meshweave {

OpAttributes attention_attributes(const ModuleContext& c) {
  OpAttributes attributes;
  attributes.mask = c.shape().mask;
  attributes.dropout = c.shape().dropout;
  attributes.scale = 1.0 / std::sqrt(static_cast<double>(c.shape().head_dim));
  return attributes;
}

Linear column_parallel(BlockRecorder& r, const std::string& name, std::int64_t outputs, std::int64_t inputs, bool bias,
                       const std::vector<std::int64_t>& packed) {
  const ModuleContext& c = r.context();
  std::array<std::int64_t, 3> rows{};
  std::transform(packed.begin(), packed.end(), rows.begin(),
                 [&](std::int64_t part) { return c.weight_sharded(part).size; });
  Linear linear;
  linear.weight = r.parameter(name + ".weight", {c.weight_sharded(outputs), {inputs, 0}}, false, rows);
  if (bias) linear.bias = r.parameter(name + ".bias", {c.weight_sharded(outputs)}, false, rows);
  return linear;
}

Linear row_parallel(BlockRecorder& r, const std::string& name, std::int64_t outputs, std::int64_t inputs, bool bias) {
  const ModuleContext& c = r.context();
  Linear linear;
  linear.weight = r.parameter(name + ".weight", {{outputs, 0}, c.weight_sharded(inputs)});
  if (bias) linear.bias = r.parameter(name + ".bias", {{outputs, 0}});
  return linear;
}

void matmul(BlockRecorder& r, const std::string& label, Value x, const Linear& linear, std::vector<Value> outputs,
            Value added) {
  OpAttributes attributes;
  std::vector<Value> reads{x, linear.weight};
  if (linear.bias != no_value) {
    attributes.bias = true;
    reads.push_back(linear.bias);
  }
  if (added != no_value) {
    attributes.accumulates = true;
    reads.push_back(added);
  }
  r.op(OpKind::matmul, label, std::move(reads), std::move(outputs), attributes);
}

Value norm(BlockRecorder& r, const std::string& name, Value x) {
  const ModuleContext& c = r.context();
  const bool layer_norm = c.shape().norm == Norm::layer_norm;
  OpAttributes attributes;
  attributes.norm = c.shape().norm;
  std::vector<Value> reads{x, r.parameter(name + ".weight", {{c.shape().hidden, 0}})};
  if (layer_norm) reads.push_back(r.parameter(name + ".bias", {{c.shape().hidden, 0}}));
  const Value y = r.local_like(name, x);
  // Mean and reciprocal deviation per token, or the reciprocal root mean square alone.
  const Value statistics = r.local(name + ".statistics", c.local_tokens({{layer_norm ? 2 : 1, 0}}), DType::fp32);
  r.block().values[statistics].secondary = true;
  r.op(OpKind::norm, name, std::move(reads), {y, statistics}, attributes);
  return y;
}

Value residual_add(BlockRecorder& r, const std::string& name, const std::string& label, Value residual, Value y,
                   Value bias) {
  const ModuleContext& c = r.context();
  OpAttributes attributes;
  attributes.dropout = c.shape().dropout;
  std::vector<Value> reads{residual, y};
  if (bias != no_value) {
    attributes.bias = true;
    reads.push_back(bias);
  }
  const Value out = r.local_like(name, residual);
  std::vector<Value> writes{out};
  if (c.shape().dropout > 0) {
    const Value mask = r.local_like(name + ".mask", out);
    r.block().values[mask].spec.dtype = DType::uint8;
    r.block().values[mask].secondary = true;
    writes.push_back(mask);
  }
  r.op(OpKind::residual_add, label, std::move(reads), std::move(writes), attributes);
  return out;
}

Value dropout(BlockRecorder& r, const std::string& name, Value x, ReEmit re_emit) {
  const ModuleContext& c = r.context();
  if (c.shape().dropout == 0) return x;
  OpAttributes attributes;
  attributes.dropout = c.shape().dropout;
  const Value y = r.local_like(name, x);
  const Value mask = r.local_like(name + ".mask", x);
  BlockValue& m = r.block().values[mask];
  m.spec.dtype = DType::uint8;
  m.secondary = true;
  m.re_emit = r.block().values[y].re_emit = re_emit;
  r.op(OpKind::dropout, name, {x}, {y, mask}, attributes);
  return y;
}

Value fused_attention(BlockRecorder& r, Value q, Value k, Value v, double visible) {
  const ModuleContext& c = r.context();
  OpAttributes attributes = attention_attributes(c);
  attributes.visible = visible;
  const Value context = r.local_like("context", q);
  const TensorSpec& queries = r.block().spec(q);
  const Value lse = r.local("log-sum-exp", {queries.dimensions.begin(), queries.dimensions.begin() + 3}, DType::fp32);
  r.block().values[lse].secondary = true;
  r.block().values[lse].re_emit = ReEmit::selective;
  r.op(OpKind::attention, "attention", {q, k, v}, {context, lse}, attributes);
  return context;
}

Value unfused_attention(BlockRecorder& r, Value q, Value k, Value v) {
  const ModuleContext& c = r.context();
  OpAttributes attributes = attention_attributes(c);
  attributes.dropout = 0;
  std::vector<Dimension> pairs(r.block().spec(q).dimensions.begin(), r.block().spec(q).dimensions.begin() + 3);
  pairs.push_back(r.block().spec(k).dimensions[0]);
  const Value scores = r.local("scores", std::move(pairs), c.activation_type());
  const Value probabilities = r.local_like("probabilities", scores);
  r.block().values[scores].re_emit = r.block().values[probabilities].re_emit = ReEmit::selective;
  r.op(OpKind::batched_matmul, "scores", {q, k}, {scores}, attributes);
  r.op(OpKind::softmax, "softmax", {scores}, {probabilities}, attributes);
  const Value dropped = dropout(r, "attention dropout", probabilities, ReEmit::selective);
  const Value context = r.local_like("context", q);
  attributes.batched = BatchedForm::context;
  r.op(OpKind::batched_matmul, "context", {dropped, v}, {context}, attributes);
  return context;
}

}  // namespace meshweave
