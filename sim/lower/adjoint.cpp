#include "sim/lower/adjoint.h"

#include <algorithm>
#include <map>

#include "sim/base/error.h"

namespace meshweave {

namespace {

AxisMask token_axes(const TensorSpec& spec) {
  return static_cast<AxisMask>(spec.dimensions[0].sharded_over | spec.dimensions[1].sharded_over);
}

class Adjoint {
 public:
  Adjoint(const ModuleContext& context, Block& block, Recompute recompute, bool split_weight)
      : context_(context), block_(block), recompute_(recompute), split_weight_(split_weight) {}

  void run() {
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
    for (std::size_t i = block_.forward.size(); i-- > 0;) reverse(BlockOp(block_.forward[i]));
    if (block_.input != no_value) {
      block_.input_gradient = gradient(block_.input);
      block_.values[block_.input_gradient].of_input = true;
    }
    flush_weights();
  }

 private:
  // --- values -------------------------------------------------------------------------------------------------

  Value add(BlockValue value) {
    block_.values.push_back(std::move(value));
    return static_cast<Value>(block_.values.size() - 1);
  }

  void count_readers() {
    readers_.resize(block_.values.size(), 0);
    for (const BlockOp& op : block_.forward) {
      for (Value v : op.reads) ++readers_[v];
    }
  }

  // The spec of a value's whole gradient.
  TensorSpec gradient_spec(Value v) const {
    TensorSpec spec = block_.spec(v);
    spec.name = "d(" + spec.name + ")";
    spec.dtype = context_.activation_type();
    spec.partial = 0;
    return spec;
  }

  // A new value for a contribution to the gradient of `v`, made by `op`.
  Value contribution(Value v, const BlockOp& op, AxisMask partial = 0) {
    BlockValue value;
    value.spec = gradient_spec(v);
    value.spec.partial = partial;
    if (readers_[v] > 1) value.spec.name += " from " + op.spec.label;
    value.category = Category::workspace;
    const Value g = add(std::move(value));
    contributions_[v].push_back(g);
    return g;
  }

  void contribute(Value v, Value g) { contributions_[v].push_back(g); }

  // The forward value as the backward may read it: saved, or made again.
  Value needed(Value v) {
    const BlockValue& value = block_.values[v];
    const bool again = value.role == Role::local &&
                       (value.re_emit == ReEmit::always ||
                        (value.re_emit == ReEmit::selective && recompute_ == Recompute::selective));
    if (!again) {
      const auto it = full_.find(v);
      return it == full_.end() ? v : it->second;
    }
    const auto it = again_.find(v);
    return it == again_.end() ? re_emit(producer(v), again_, v) : it->second;
  }

  const BlockOp& producer(Value v) const {
    for (const BlockOp& op : block_.forward) {
      if (std::find(op.writes.begin(), op.writes.end(), v) != op.writes.end()) return op;
    }
    bug("a value without producer: " + block_.spec(v).name);
  }

  // Appends a copy of a forward op that makes fresh values of its outputs; returns the fresh value of `v`.
  Value re_emit(const BlockOp& forward, std::map<Value, Value>& fresh, Value v) {
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

  void re_emit_all() {
    // Within the re-emitted forward every value is the fresh one, gathers included; behind it, gathers are made
    // again from what they gather.
    for (std::size_t i = 0; i < block_.forward.size(); ++i) {
      BlockOp op = block_.forward[i];
      op.spec.phase = Phase::recompute;
      const auto fresh = [&](Value v) {
        const auto it = full_.find(v);
        return it == full_.end() ? v : it->second;
      };
      for (Value& r : op.reads) r = fresh(r);
      for (Value& w : op.writes) {
        if (block_.values[w].role != Role::local) continue;
        const Value original = w;
        BlockValue value = block_.values[original];
        if (value.alias != no_value) value.alias = fresh(value.alias);
        value.re_emit = ReEmit::never;
        w = add(std::move(value));
        full_[original] = w;
      }
      push(std::move(op));
    }
    readers_.resize(block_.values.size(), 0);
  }

  // --- emission -----------------------------------------------------------------------------------------------

  // Appends to the backward; waiting weight gradients stand behind the next communication, else before the next
  // compute op.
  void push(BlockOp op) {
    const bool communication = is_communication(op.spec.kind);
    if (!communication) flush_weights();
    block_.backward.push_back(std::move(op));
    if (communication) flush_weights();
    contributions_.resize(block_.values.size());
    readers_.resize(block_.values.size(), 0);
  }

  void emit(OpKind kind, std::string label, std::vector<Value> reads, std::vector<Value> writes,
            const OpAttributes& attributes = {}) {
    push(make_op(kind, Phase::backward_data, std::move(label), std::move(reads), std::move(writes), attributes));
  }

  BlockOp make_op(OpKind kind, Phase phase, std::string label, std::vector<Value> reads, std::vector<Value> writes,
                  const OpAttributes& attributes) const {
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

  void emit_weight(OpKind kind, std::string label, std::vector<Value> reads, std::vector<Value> gradients,
                   const OpAttributes& attributes) {
    for (Value g : gradients) reads.push_back(g);
    weights_.push_back(make_op(kind, Phase::backward_weight, std::move(label), std::move(reads), std::move(gradients),
                               attributes));
  }

  void flush_weights() {
    std::vector<BlockOp>& part = split_weight_ ? block_.weight : block_.backward;
    for (BlockOp& op : weights_) part.push_back(std::move(op));
    weights_.clear();
  }

  Value tensor_op(OpKind kind, const std::string& label, Value read, BlockValue written) {
    const Value w = add(std::move(written));
    BlockOp op = make_op(kind, Phase::backward_data, label, {read}, {w}, {});
    op.spec.stream = context_.tensor_stream;
    op.spec.group = context_.tp_group;
    push(std::move(op));
    return w;
  }

  // The main gradient of a parameter, partial over `partial`; a tied table's also over the stages that share it.
  Value main_gradient(Value parameter, AxisMask partial) {
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

  // --- gradients ----------------------------------------------------------------------------------------------

  bool has_gradient(Value v) const { return v < contributions_.size() && !contributions_[v].empty(); }

  // The sum of the contributions; it may still be partial. The sum is kept, so it is made once.
  Value summed(Value v) {
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
  Value reduced(Value g, Value of) {
    if (block_.spec(g).partial == 0) return g;
    BlockValue whole = block_.values[g];
    whole.spec = gradient_spec(of);
    whole.alias = g;
    return tensor_op(OpKind::all_reduce, block_.spec(of).name + " gradient all-reduce", g, std::move(whole));
  }

  Value gradient(Value v) {
    const Value g = reduced(summed(v), v);
    contributions_[v] = {g};
    return g;
  }

  // --- rules --------------------------------------------------------------------------------------------------

  void reverse(const BlockOp& op) {
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
      default: bug("no adjoint rule for " + std::string(name_of(op.spec.kind)));
    }
  }

  void emit_unary(const BlockOp& op, OpKind kind, std::vector<Value> reads) {
    emit(kind, op.spec.label, std::move(reads), {contribution(op.reads[0], op)}, op.spec.attributes);
  }

  void bias_gradient(const BlockOp& op, std::vector<Value> dy) {
    const Value db = main_gradient(op.reads.back(), token_axes(block_.spec(dy[0])));
    emit_weight(OpKind::bias_gradient, op.spec.label + " bias", std::move(dy), {db}, {});
  }

  // dx = dy·W is partial over the axes that shard W's outputs; dW = dyᵀ·x over those that shard the tokens.
  void matmul(const BlockOp& op) {
    const Value x = op.reads[0];
    const Value w = op.reads[1];
    std::vector<Value> dy;
    for (Value y : op.writes) dy.push_back(gradient(y));
    const Value saved = needed(x);
    OpAttributes attributes;
    attributes.matmul = MatmulForm::data_gradient;
    std::vector<Value> reads = dy;
    reads.push_back(w);
    const Value dx = contribution(x, op, block_.spec(w).dimensions[0].sharded_over);
    emit(OpKind::matmul, op.spec.label, std::move(reads), {dx}, attributes);
    attributes.matmul = MatmulForm::weight_gradient;
    reads = dy;
    reads.push_back(saved);
    emit_weight(OpKind::matmul, op.spec.label, std::move(reads),
                {main_gradient(w, token_axes(block_.spec(saved)))}, attributes);
    if (op.spec.attributes.bias) bias_gradient(op, dy);
  }

  void attention(const BlockOp& op) {
    std::vector<Value> reads{gradient(op.writes[0])};
    for (Value v : op.reads) reads.push_back(needed(v));
    reads.push_back(needed(op.writes[0]));
    reads.push_back(needed(op.writes[1]));
    std::vector<Value> writes;
    for (Value v : op.reads) writes.push_back(contribution(v, op));
    emit(OpKind::attention_backward, op.spec.label, std::move(reads), std::move(writes), op.spec.attributes);
  }

  void batched_matmul(const BlockOp& op) {
    const Value dy = gradient(op.writes[0]);
    const bool scores = op.spec.attributes.batched == BatchedForm::scores;
    OpAttributes attributes = op.spec.attributes;
    attributes.batched = scores ? BatchedForm::d_query : BatchedForm::d_probabilities;
    const Value second = needed(op.reads[1]);
    emit(OpKind::batched_matmul, op.spec.label, {dy, second}, {contribution(op.reads[0], op)}, attributes);
    attributes.batched = scores ? BatchedForm::d_key : BatchedForm::d_value;
    const Value first = needed(op.reads[0]);
    emit(OpKind::batched_matmul, op.spec.label, {dy, first}, {contribution(op.reads[1], op)}, attributes);
  }

  void norm(const BlockOp& op) {
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

  void rope(const BlockOp& op) {
    const Value dq = gradient(op.writes[0]);
    const Value dk = gradient(op.writes[1]);
    const Value q = contribution(op.reads[0], op);
    const Value k = contribution(op.reads[1], op);
    emit(OpKind::rope_backward, op.spec.label, {dq, dk}, {q, k}, op.spec.attributes);
  }

  // The residual passes the gradient on; y and the bias see it through the dropout.
  void residual_add(const BlockOp& op) {
    Value g = gradient(op.writes[0]);
    contribute(op.reads[0], g);
    if (op.spec.attributes.dropout > 0) {
      const Value dy = contribution(op.reads[1], op);
      emit(OpKind::dropout_backward, op.spec.label, {g, needed(op.writes[1])}, {dy}, op.spec.attributes);
      g = dy;
    } else {
      contribute(op.reads[1], g);
    }
    if (op.spec.attributes.bias) bias_gradient(op, {g});
  }

  void embedding(const BlockOp& op) {
    const Value dy = gradient(op.writes[0]);
    emit_weight(OpKind::embedding_gradient, op.spec.label, {dy, op.reads[0]},
                {main_gradient(op.reads[1], token_axes(block_.spec(dy)))}, op.spec.attributes);
  }

  void position_add(const BlockOp& op) {
    const Value dy = gradient(op.writes[0]);
    contribute(op.reads[0], dy);
    emit_weight(OpKind::position_gradient, op.spec.label, {dy},
                {main_gradient(op.reads[1], token_axes(block_.spec(dy)))}, op.spec.attributes);
  }

  // The sum of what every member computed for the gathered tensor, back to the owners.
  void all_gather(const BlockOp& op) {
    const Value dy = summed(op.writes[0]);
    ensure(block_.spec(dy).partial != 0, "the gradient of a gathered tensor is not partial");
    BlockValue scattered;
    scattered.spec = gradient_spec(op.reads[0]);
    scattered.category = Category::communication;
    contribute(op.reads[0], tensor_op(OpKind::reduce_scatter, block_.spec(op.reads[0]).name + " gradient reduce-scatter",
                                      dy, std::move(scattered)));
  }

  void reduce_scatter(const BlockOp& op) {
    const Value dy = gradient(op.writes[0]);
    BlockValue gathered;
    gathered.spec = gradient_spec(op.reads[0]);
    gathered.category = Category::communication;
    contribute(op.reads[0], tensor_op(OpKind::all_gather, block_.spec(op.writes[0]).name + " gradient all-gather", dy,
                                      std::move(gathered)));
  }

  // d logits = (softmax − one-hot) × scale: the rule spans the four ops and two all-reduces of the loss.
  void cross_entropy(const BlockOp& op) {
    const BlockOp& sums = *std::find_if(block_.forward.begin(), block_.forward.end(), [](const BlockOp& o) {
      return o.spec.kind == OpKind::cross_entropy_sum;
    });
    const Value logits = sums.reads[0];
    const std::vector<Value> reads{needed(sums.writes[0]), needed(op.reads[0]), sums.reads[2]};
    const Value d_logits = contribution(logits, op);
    block_.values[d_logits].spec.name = gradient_spec(logits).name;  // of several readers the only contribution
    emit(OpKind::cross_entropy_backward, "loss", reads, {d_logits}, op.spec.attributes);
  }

  const ModuleContext& context_;
  Block& block_;
  Recompute recompute_;
  bool split_weight_;
  std::vector<int> readers_;                       // of each forward value
  std::vector<std::vector<Value>> contributions_;  // to the gradient of each forward value
  std::map<Value, Value> full_;                    // forward value → its re-emission, recompute full
  std::map<Value, Value> again_;                   // forward value → its re-emission, marked values
  std::vector<BlockOp> weights_;                   // weight gradients not yet placed
};

}  // namespace

void derive_backward(const ModuleContext& context, Block& block, Recompute recompute, bool split_weight) {
  Adjoint(context, block, recompute, split_weight).run();
}

}  // namespace meshweave
