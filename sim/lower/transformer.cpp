#include "sim/lower/transformer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/lower/tensor_parallel.h"

namespace meshweave {

namespace {

// A linear layer's weight [outputs, inputs] and, where the shape has one, its bias.
struct Linear {
  Value weight = no_value;
  Value bias = no_value;
};

// `packed`: the outputs of the parts that the weight holds side by side; empty for one.
Linear column_parallel(BlockRecorder& r, const std::string& name, std::int64_t outputs, std::int64_t inputs, bool bias,
                       const std::vector<std::int64_t>& packed) {
  const ModuleContext& c = r.context();
  std::array<std::int64_t, 3> rows{};
  std::transform(packed.begin(), packed.end(), rows.begin(), [&](std::int64_t part) { return c.tp_sharded(part).size; });
  Linear linear;
  linear.weight = r.parameter(name + ".weight", {c.tp_sharded(outputs), {inputs, 0}}, false, rows);
  if (bias) linear.bias = r.parameter(name + ".bias", {c.tp_sharded(outputs)}, false, rows);
  return linear;
}

Linear row_parallel(BlockRecorder& r, const std::string& name, std::int64_t outputs, std::int64_t inputs, bool bias) {
  const ModuleContext& c = r.context();
  Linear linear;
  linear.weight = r.parameter(name + ".weight", {{outputs, 0}, c.tp_sharded(inputs)});
  if (bias) linear.bias = r.parameter(name + ".bias", {{outputs, 0}});
  return linear;
}

// x·Wᵀ (+ bias) into `outputs`.
void matmul(BlockRecorder& r, const std::string& label, Value x, const Linear& linear, std::vector<Value> outputs) {
  OpAttributes attributes;
  std::vector<Value> reads{x, linear.weight};
  if (linear.bias != no_value) {
    attributes.bias = true;
    reads.push_back(linear.bias);
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
  const Value statistics =
      r.local(name + ".statistics", c.local_tokens({{layer_norm ? 2 : 1, 0}}), DType::fp32);
  r.block().values[statistics].secondary = true;
  r.op(OpKind::norm, name, std::move(reads), {y, statistics}, attributes);
  return y;
}

// out = residual + dropout(y + bias).
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

// dropout(x), with its mask; x itself when the shape has no dropout.
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

Value fused_attention(BlockRecorder& r, Value q, Value k, Value v) {
  const ModuleContext& c = r.context();
  OpAttributes attributes;
  attributes.mask = c.shape().mask;
  attributes.dropout = c.shape().dropout;
  attributes.scale = 1.0 / std::sqrt(static_cast<double>(c.shape().head_dim));
  const Value context = r.local_like("context", q);
  const Value lse =
      r.local("log-sum-exp", c.tokens({c.tp_sharded(c.shape().heads)}), DType::fp32);
  r.block().values[lse].secondary = true;
  r.block().values[lse].re_emit = ReEmit::selective;
  r.op(OpKind::attention, "attention", {q, k, v}, {context, lse}, attributes);
  return context;
}

Value unfused_attention(BlockRecorder& r, Value q, Value k, Value v) {
  const ModuleContext& c = r.context();
  OpAttributes attributes;
  attributes.mask = c.shape().mask;
  attributes.scale = 1.0 / std::sqrt(static_cast<double>(c.shape().head_dim));
  const Value scores = r.local("scores", c.tokens({c.tp_sharded(c.shape().heads), {c.shape().sequence, 0}}),
                               c.activation_type());
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

// norm1 → qkv → rope → attention → projection → residual
Value attention_part(BlockRecorder& r, Value x) {
  const ModuleContext& c = r.context();
  const TransformerShape& s = c.shape();
  const DType type = c.activation_type();
  const Value normed = enter_tensor_parallel(r, norm(r, "norm1", x), "norm1");
  const Linear qkv = column_parallel(r, "qkv", s.qkv_size(), s.hidden, s.biases != Biases::none,
                                    {s.q_size(), s.kv_size(), s.kv_size()});
  const auto heads = [&](std::int64_t count) { return c.tokens({c.tp_sharded(count), {s.head_dim, 0}}); };
  Value q = r.local("q", heads(s.heads), type);
  Value k = r.local("k", heads(s.kv_heads), type);
  const Value v = r.local("v", heads(s.kv_heads), type);
  matmul(r, "qkv", normed, qkv, {q, k, v});
  if (s.position == Position::rope) {
    const Value q_turned = r.local_like("q rotated", q);
    const Value k_turned = r.local_like("k rotated", k);
    r.op(OpKind::rope, "rope", {q, k}, {q_turned, k_turned});
    q = q_turned;
    k = k_turned;
  }
  const Value context = s.fused_attention ? fused_attention(r, q, k, v) : unfused_attention(r, q, k, v);
  const Linear projection = row_parallel(r, "projection", s.hidden, s.q_size(), s.biases == Biases::all);
  const Value partial = r.local("projection partial", c.tokens({{s.hidden, 0}}), type, c.tp_axis);
  matmul(r, "projection", context, {projection.weight, no_value}, {partial});
  const Value projected = leave_tensor_parallel(r, partial, "projection", "projection");
  return residual_add(r, "attention output", "attention residual", x, projected, projection.bias);
}

// norm2 → fc1 → activation → fc2 → residual
Value mlp_part(BlockRecorder& r, Value x) {
  const ModuleContext& c = r.context();
  const TransformerShape& s = c.shape();
  const DType type = c.activation_type();
  const bool bias = s.biases == Biases::all;
  const Value normed = enter_tensor_parallel(r, norm(r, "norm2", x), "norm2");
  const Linear fc1 = column_parallel(r, "fc1", s.fc1_size(), s.hidden, bias,
                                    s.gated() ? std::vector{s.ffn, s.ffn} : std::vector<std::int64_t>{});
  const Value widened = r.local("fc1", c.tokens({c.tp_sharded(s.fc1_size())}), type);
  matmul(r, "fc1", normed, fc1, {widened});
  const Value activated = r.local("activation", c.tokens({c.tp_sharded(s.ffn)}), type);
  OpAttributes attributes;
  attributes.activation = s.activation;
  r.op(OpKind::activation, "activation", {widened}, {activated}, attributes);
  const Linear fc2 = row_parallel(r, "fc2", s.hidden, s.ffn, bias);
  const Value partial = r.local("fc2 partial", c.tokens({{s.hidden, 0}}), type, c.tp_axis);
  matmul(r, "fc2", activated, {fc2.weight, no_value}, {partial});
  const Value narrowed = leave_tensor_parallel(r, partial, "fc2", "fc2");
  return residual_add(r, "hidden", "mlp residual", x, narrowed, fc2.bias);
}

Dimension vocabulary_rows(const ModuleContext& c) { return c.tp_sharded(c.shape().padded_vocabulary(c.tp())); }

TensorSpec token_spec(const ModuleContext& c, const std::string& name) {
  return make_spec(name, c.tokens(), DType::int64, 0, c.module);
}

}  // namespace

TensorSpec hidden_spec(const ModuleContext& context) {
  return make_spec("hidden", context.local_tokens({{context.shape().hidden, 0}}), context.activation_type(), 0,
                   context.module);
}

Block record_layer(const ModuleContext& context) {
  Block block;
  block.name = "layer";
  BlockRecorder r(context, block);
  const Value x = r.input(hidden_spec(context));
  block.output = mlp_part(r, attention_part(r, x));
  return block;
}

Block record_embedding(const ModuleContext& context) {
  const TransformerShape& s = context.shape();
  Block block;
  block.name = "embedding";
  BlockRecorder r(context, block);
  const Value ids = r.external(Role::token_ids, token_spec(context, "token ids"));
  const Value table =
      r.parameter("embedding.weight", {vocabulary_rows(context), {s.hidden, 0}}, s.tied_embeddings);
  const Value partial = r.local("embedding partial", context.tokens({{s.hidden, 0}}), context.activation_type(),
                                context.tp_axis);
  r.op(OpKind::embedding, "embedding", {ids, table}, {partial});
  Value x = leave_tensor_parallel(r, partial, "embedding", "embedding");
  if (s.position == Position::learned) {
    const Value positions = r.parameter("position.weight", {{s.max_positions, 0}, {s.hidden, 0}});
    const Value y = r.local_like("embedding with positions", x);
    r.op(OpKind::position_add, "position", {x, positions}, {y});
    x = y;
  }
  x = dropout(r, "embedding dropout", x, ReEmit::never);
  block.values[x].spec.name = "hidden";
  block.output = x;
  return block;
}

Block record_head(const ModuleContext& context) {
  const TransformerShape& s = context.shape();
  Block block;
  block.name = "head";
  BlockRecorder r(context, block);
  const Value x = r.input(hidden_spec(context));
  const Value normed = enter_tensor_parallel(r, norm(r, "final norm", x), "final norm");
  const Value table = r.parameter(s.tied_embeddings ? "embedding.weight" : "output.weight",
                                  {vocabulary_rows(context), {s.hidden, 0}}, s.tied_embeddings);
  const Value logits = r.local("logits", context.tokens({vocabulary_rows(context)}), context.activation_type());
  matmul(r, "logits", normed, {table, no_value}, {logits});

  const Value local_max = r.local("local maximum", context.tokens(), DType::fp32);
  r.op(OpKind::cross_entropy_max, "logit maximum", {logits}, {local_max});
  const Value maximum = all_reduce_tensor(r, local_max, ReduceOp::max, "maximum", "logit maximum");
  const Value labels = r.external(Role::labels, token_spec(context, "labels"));
  const Value exponentials = r.local_like("exponentials", logits);
  block.values[exponentials].spec.dtype = DType::fp32;
  std::vector<Dimension> pair = context.tokens({{2, 0}});
  const Value local_sums = r.local("local sums", pair, DType::fp32, context.tp_axis);
  r.op(OpKind::cross_entropy_sum, "exponentials", {logits, maximum, labels}, {exponentials, local_sums});
  const Value sums = all_reduce_tensor(r, local_sums, ReduceOp::sum, "sums", "logit sums");
  const Value loss = r.external(Role::loss, make_spec("loss", {{1, 0}}, DType::fp32, context.dp_axis, context.module));
  OpAttributes attributes;
  attributes.scale = context.loss_scale;
  r.op(OpKind::cross_entropy_loss, "loss", {sums, maximum, loss}, {loss}, attributes);
  return block;
}

}  // namespace meshweave
