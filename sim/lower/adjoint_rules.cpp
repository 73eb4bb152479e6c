// The adjoint rule of each op kind.
#include <algorithm>

#include "sim/base/error.h"
#include "sim/lower/adjoint.h"

namespace meshweave {

namespace {

AxisMask token_axes(const TensorSpec& spec) {
  return static_cast<AxisMask>(spec.dimensions[0].sharded_over | spec.dimensions[1].sharded_over);
}

}  // namespace

void Adjoint::reverse(const BlockOp& op) {
  if (op.spec.kind == OpKind::cross_entropy_loss) return cross_entropy(op);
  if (!has_gradient(op.writes[0])) return;  // inside the loss, whose rule spans its ops
  switch (op.spec.kind) {
    case OpKind::matmul: return matmul(op);
    case OpKind::attention: return attention(op);
    case OpKind::batched_matmul: return batched_matmul(op);
    case OpKind::softmax:
      return emit_unary(op, OpKind::softmax_backward, {gradient(op.writes[0]), needed(op.writes[0])});
    case OpKind::activation:
      return emit_unary(op, OpKind::activation_backward, {gradient(op.writes[0]), needed(op.reads[0])});
    case OpKind::dropout:
      return emit_unary(op, OpKind::dropout_backward, {gradient(op.writes[0]), needed(op.writes[1])});
    case OpKind::norm: return norm(op);
    case OpKind::rope: return rope(op);
    case OpKind::residual_add: return residual_add(op);
    case OpKind::embedding: return embedding(op);
    case OpKind::position_add: return position_add(op);
    case OpKind::all_reduce: return contribute(op.reads[0], gradient(op.writes[0]));
    case OpKind::all_gather: return all_gather(op);
    case OpKind::reduce_scatter: return reduce_scatter(op);
    case OpKind::all_to_all: return all_to_all(op);
    case OpKind::broadcast: return broadcast(op);
    case OpKind::reorder: return reorder(op);
    default: bug("no adjoint rule for " + std::string(name_of(op.spec.kind)));
  }
}

void Adjoint::emit_unary(const BlockOp& op, OpKind kind, std::vector<Value> reads) {
  emit(kind, op.spec.label, std::move(reads), {contribution(op.reads[0], op)}, op.spec.attributes);
}

void Adjoint::bias_gradient(Value bias, const std::string& label, std::vector<Value> dy) {
  const Value db = weight_gradient(bias, token_axes(block_.spec(dy[0])));
  emit_weight(OpKind::bias_gradient, label + " bias", std::move(dy), {db}, {});
}

// dx = dy·W is partial over the axes that shard W's outputs, unless W visits; dW = dyᵀ·x over those that shard the
// tokens. A product that was added to another passes its gradient on; an input of several products has its gradient
// added up in place.
void Adjoint::matmul(const BlockOp& op) {
  const Value x = op.reads[0];
  const Value w = op.reads[1];
  std::vector<Value> dy;
  for (Value y : op.writes) dy.push_back(gradient(y));
  if (op.spec.attributes.accumulates) contribute(op.reads.back(), dy[0]);
  const Value saved = needed(x);
  const Value weight = needed(w);
  OpAttributes attributes;
  attributes.matmul = MatmulForm::data_gradient;
  std::vector<Value> reads = dy;
  reads.push_back(weight);
  Value dx = no_value;
  if (readers_[x] > 1 && has_gradient(x)) {
    dx = contributions_[x].back();
    reads.push_back(dx);
    attributes.accumulates = true;
  } else {
    dx = contribution(x, op, contracted_axes(block_.spec(w).dimensions[0]));
  }
  emit(OpKind::matmul, op.spec.label, std::move(reads), {dx}, attributes);
  attributes = {};
  attributes.matmul = MatmulForm::weight_gradient;
  reads = dy;
  reads.push_back(saved);
  emit_weight(OpKind::matmul, op.spec.label, std::move(reads), {weight_gradient(w, token_axes(block_.spec(saved)))},
              attributes);
  if (op.spec.attributes.bias) bias_gradient(op.reads[2], op.spec.label, dy);
}

// Of gathered keys and values each rank has the gradients that its own queries make.
AxisMask Adjoint::own_share(Value queries, Value keys) const {
  return static_cast<AxisMask>(token_axes(block_.spec(queries)) & ~token_axes(block_.spec(keys)));
}

void Adjoint::attention(const BlockOp& op) {
  std::vector<Value> reads{gradient(op.writes[0])};
  for (Value v : op.reads) reads.push_back(needed(v));
  reads.push_back(needed(op.writes[0]));
  reads.push_back(needed(op.writes[1]));
  std::vector<Value> writes;
  for (Value v : op.reads) writes.push_back(contribution(v, op, own_share(op.reads[0], v)));
  emit(OpKind::attention_backward, op.spec.label, std::move(reads), std::move(writes), op.spec.attributes);
}

void Adjoint::batched_matmul(const BlockOp& op) {
  const Value dy = gradient(op.writes[0]);
  const bool scores = op.spec.attributes.batched == BatchedForm::scores;
  OpAttributes attributes = op.spec.attributes;
  attributes.batched = scores ? BatchedForm::d_query : BatchedForm::d_probabilities;
  const Value second = needed(op.reads[1]);
  emit(OpKind::batched_matmul, op.spec.label, {dy, second}, {contribution(op.reads[0], op)}, attributes);
  attributes.batched = scores ? BatchedForm::d_key : BatchedForm::d_value;
  const Value first = needed(op.reads[0]);
  emit(OpKind::batched_matmul, op.spec.label, {dy, first},
       {contribution(op.reads[1], op, own_share(op.reads[0], op.reads[1]))}, attributes);
}

void Adjoint::norm(const BlockOp& op) {
  const Value dy = gradient(op.writes[0]);
  const Value x = needed(op.reads[0]);
  const Value statistics = needed(op.writes[1]);
  emit(OpKind::norm_backward, op.spec.label, {dy, x, statistics, op.reads[1]}, {contribution(op.reads[0], op)},
       op.spec.attributes);
  const AxisMask partial = token_axes(block_.spec(x));
  std::vector<Value> gradients;
  for (std::size_t i = 1; i < op.reads.size(); ++i) gradients.push_back(main_gradient(op.reads[i], partial));
  emit_weight(OpKind::norm_weight_gradient, op.spec.label, {dy, x, statistics}, std::move(gradients),
              op.spec.attributes);
}

void Adjoint::rope(const BlockOp& op) {
  const Value dq = gradient(op.writes[0]);
  const Value dk = gradient(op.writes[1]);
  const Value q = contribution(op.reads[0], op);
  const Value k = contribution(op.reads[1], op);
  emit(OpKind::rope_backward, op.spec.label, {dq, dk}, {q, k}, op.spec.attributes);
}

// The residual passes the gradient on; y and the bias see it through the dropout.
void Adjoint::residual_add(const BlockOp& op) {
  Value g = gradient(op.writes[0]);
  contribute(op.reads[0], g);
  if (op.spec.attributes.dropout > 0) {
    const Value dy = contribution(op.reads[1], op);
    emit(OpKind::dropout_backward, op.spec.label, {g, needed(op.writes[1])}, {dy}, op.spec.attributes);
    g = dy;
  } else {
    contribute(op.reads[1], g);
  }
  if (op.spec.attributes.bias) bias_gradient(op.reads[2], op.spec.label, {g});
}

void Adjoint::embedding(const BlockOp& op) {
  const Value dy = gradient(op.writes[0]);
  emit_weight(OpKind::embedding_gradient, op.spec.label, {dy, op.reads[0]},
              {weight_gradient(op.reads[1], token_axes(block_.spec(dy)))}, op.spec.attributes);
  if (!is_parameter(op.reads[1])) flush_weights();
}

void Adjoint::position_add(const BlockOp& op) {
  const Value dy = gradient(op.writes[0]);
  contribute(op.reads[0], dy);
  emit_weight(OpKind::position_gradient, op.spec.label, {dy}, {main_gradient(op.reads[1], token_axes(block_.spec(dy)))},
              op.spec.attributes);
}

// The sum of what every member computed for the gathered tensor, back to the owners.
void Adjoint::all_gather(const BlockOp& op) {
  if (is_parameter(op.reads[0])) return send_home(OpKind::reduce_scatter, op, op.spec.attributes);
  std::vector<Value> reads;
  std::vector<BlockValue> written;
  for (std::size_t i = 0; i < op.reads.size(); ++i) {
    const Value dy = summed(op.writes[i]);
    ensure(block_.spec(dy).partial != 0, "the gradient of a gathered tensor is not partial");
    reads.push_back(dy);
    BlockValue scattered;
    scattered.spec = gradient_spec(op.reads[i]);
    scattered.category = Category::communication;
    written.push_back(std::move(scattered));
  }
  const std::string label = op.reads.size() == 1 ? block_.spec(op.reads[0]).name : op.spec.label;
  const std::vector<Value> scattered = communicate(OpKind::reduce_scatter, label + " gradient reduce-scatter", op,
                                                   std::move(reads), std::move(written), op.spec.attributes);
  for (std::size_t i = 0; i < op.reads.size(); ++i) contribute(op.reads[i], scattered[i]);
}

void Adjoint::reduce_scatter(const BlockOp& op) {
  const Value dy = gradient(op.writes[0]);
  BlockValue gathered;
  gathered.spec = gradient_spec(op.reads[0]);
  gathered.category = Category::communication;
  contribute(op.reads[0], communicate(OpKind::all_gather, block_.spec(op.writes[0]).name + " gradient all-gather", op,
                                      {dy}, {gathered}, op.spec.attributes)[0]);
}

void Adjoint::all_to_all(const BlockOp& op) {
  std::vector<Value> reads;
  std::vector<BlockValue> written;
  for (std::size_t i = 0; i < op.reads.size(); ++i) {
    reads.push_back(gradient(op.writes[i]));
    BlockValue back;
    back.spec = gradient_spec(op.reads[i]);
    back.category = Category::communication;
    written.push_back(std::move(back));
  }
  OpAttributes attributes = op.spec.attributes;
  std::swap(attributes.dimension, attributes.joined);
  const std::vector<Value> moved = communicate(OpKind::all_to_all, op.spec.label + " gradient", op, std::move(reads),
                                               std::move(written), attributes);
  for (std::size_t i = 0; i < op.reads.size(); ++i) contribute(op.reads[i], moved[i]);
}

// Visiting weights come from their owner.
void Adjoint::broadcast(const BlockOp& op) { send_home(OpKind::reduce, op, op.spec.attributes); }

void Adjoint::send_home(OpKind kind, const BlockOp& forward, const OpAttributes& attributes) {
  AxisMask axes = 0;
  for (const Dimension& d : block_.spec(forward.reads[0]).dimensions)
    axes = static_cast<AxisMask>(axes | d.sharded_over);
  std::vector<Value> gradients, homes;
  for (std::size_t i = 0; i < forward.reads.size(); ++i) {
    gradients.push_back(summed(forward.writes[i]));
    homes.push_back(
        main_gradient(forward.reads[i], static_cast<AxisMask>(block_.spec(gradients.back()).partial & ~axes)));
  }
  emit_weight(kind, forward.spec.label + " gradient", std::move(gradients), std::move(homes), attributes);
  weights_.back().spec.stream = forward.spec.stream;
  weights_.back().spec.group = forward.spec.group;
}

void Adjoint::reorder(const BlockOp& op) {
  const Value dy = summed(op.writes[0]);
  const Value dx = contribution(op.reads[0], op, block_.spec(dy).partial);
  emit(OpKind::reorder, op.spec.label + " gradient", {dy}, {dx}, op.spec.attributes);
}

// d logits = (softmax − one-hot) × scale: the rule spans the four ops and two all-reduces of the loss.
void Adjoint::cross_entropy(const BlockOp& op) {
  const BlockOp& sums = *std::find_if(block_.forward.begin(), block_.forward.end(),
                                      [](const BlockOp& o) { return o.spec.kind == OpKind::cross_entropy_sum; });
  const Value logits = sums.reads[0];
  const std::vector<Value> reads{needed(sums.writes[0]), needed(op.reads[0]), sums.reads[2]};
  const Value d_logits = contribution(logits, op);
  block_.values[d_logits].spec.name = gradient_spec(logits).name;  // of several readers the only contribution
  OpAttributes attributes;
  attributes.scale = op.spec.attributes.scale;
  emit(OpKind::cross_entropy_backward, "loss", reads, {d_logits}, attributes);
}

}  // namespace meshweave
