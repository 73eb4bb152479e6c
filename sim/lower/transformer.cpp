#include "sim/lower/transformer.h"

#include <cmath>

#include "sim/lower/context_parallel.h"
#include "sim/lower/folded.h"
#include "sim/lower/layer_parts.h"
#include "sim/lower/tensor_parallel.h"

namespace meshweave {

namespace {

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
  const Value context = attention_over_shards(r, q, k, v);
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

// The table of the vocabulary: a rank's rows, or under the folded axis all of them, gathered from their owners.
Value vocabulary_table(BlockRecorder& r, const std::string& name, bool tied, const std::string& use) {
  const ModuleContext& c = r.context();
  const Dimension rows = c.weight_sharded(c.shape().padded_vocabulary(c.layout().weight_shards()));
  const Value own = r.parameter(name, {rows, {c.shape().hidden, 0}}, tied);
  return c.tsp() > 1 ? gathered_table(r, own, use) : own;
}

// The features of logits.
Dimension vocabulary_columns(const ModuleContext& c) {
  return c.tp_sharded(c.shape().padded_vocabulary(c.layout().weight_shards()));
}

TensorSpec token_spec(const ModuleContext& c, const std::string& name, Content content) {
  TensorSpec spec = make_spec(name, c.tokens(), DType::int64, 0, c.grid);
  spec.content = content;
  return spec;
}

}  // namespace

TensorSpec hidden_spec(const ModuleContext& context) {
  return make_spec("hidden", context.local_tokens({{context.shape().hidden, 0}}), context.activation_type(), 0,
                   context.grid);
}

TensorSpec loss_spec(const ModuleContext& context) {
  const auto axes = static_cast<AxisMask>(context.dp_axis | context.sequence_axes);
  TensorSpec spec = make_spec("loss", {{1, 0}}, DType::fp32, axes, context.grid);
  spec.content = Content::loss;
  return spec;
}

Block record_layer(const ModuleContext& context) {
  Block block;
  block.name = "layer";
  BlockRecorder r(context, block);
  const Value x = r.input(hidden_spec(context));
  block.output = context.tsp() > 1 ? folded_mlp(r, folded_attention(r, x)) : mlp_part(r, attention_part(r, x));
  return block;
}

Block record_embedding(const ModuleContext& context) {
  const TransformerShape& s = context.shape();
  Block block;
  block.name = "embedding";
  BlockRecorder r(context, block);
  const Value ids = r.external(Role::token_ids, token_spec(context, "token ids", Content::token_ids));
  const Value table = vocabulary_table(r, "embedding.weight", s.tied_embeddings, "embedding");
  const Value partial =
      r.local("embedding partial", context.tokens({{s.hidden, 0}}), context.activation_type(), context.tp_axis);
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
  const Value table =
      vocabulary_table(r, s.tied_embeddings ? "embedding.weight" : "output.weight", s.tied_embeddings, "logits");
  const Value logits = r.local("logits", context.tokens({vocabulary_columns(context)}), context.activation_type());
  matmul(r, "logits", normed, {table, no_value}, {logits});

  const Value local_max = r.local("local maximum", context.tokens(), DType::fp32);
  r.op(OpKind::cross_entropy_max, "logit maximum", {logits}, {local_max});
  const Value maximum = all_reduce_tensor(r, local_max, ReduceOp::max, "maximum", "logit maximum");
  const Value labels = r.external(Role::labels, token_spec(context, "labels", Content::labels));
  const Value exponentials = r.local_like("exponentials", logits);
  block.values[exponentials].spec.dtype = DType::fp32;
  std::vector<Dimension> pair = context.tokens({{2, 0}});
  const Value local_sums = r.local("local sums", pair, DType::fp32, context.tp_axis);
  r.op(OpKind::cross_entropy_sum, "exponentials", {logits, maximum, labels}, {exponentials, local_sums});
  const Value sums = all_reduce_tensor(r, local_sums, ReduceOp::sum, "sums", "logit sums");
  const Value loss = r.external(Role::loss, loss_spec(context));
  OpAttributes attributes;
  attributes.scale = context.loss_scale;
  attributes.accumulates = true;
  r.op(OpKind::cross_entropy_loss, "loss", {sums, maximum, loss}, {loss}, attributes);
  return block;
}

}  // namespace meshweave
