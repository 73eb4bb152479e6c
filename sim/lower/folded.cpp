#include "sim/lower/folded.h"

#include <fmt/format.h>

#include <memory>

#include "sim/base/narrow.h"
#include "sim/lower/adjoint.h"
#include "sim/lower/context_parallel.h"
#include "sim/lower/layer_parts.h"

namespace meshweave {

namespace {

// `size` features of which the rank has those of a visiting shard.
Dimension visiting(const ModuleContext& c, std::int64_t size, HeldPart part) {
  Dimension d = c.weight_sharded(size);
  d.held = part;
  return d;
}

// A weight as a visitor.
BlockValue visitor(const TensorSpec& weight, HeldPart part) {
  BlockValue value;
  value.spec = weight;
  for (Dimension& d : value.spec.dimensions) {
    if (d.sharded_over != 0) d.held = part;
  }
  value.category = Category::communication;
  return value;
}

std::vector<Value> weights_of(const Linear& linear) {
  return linear.bias == no_value ? std::vector{linear.weight} : std::vector{linear.weight, linear.bias};
}

// Attention of one owner's heads, in two parts: A makes queries and gathers keys and values, B attends and projects.
class FoldedAttention {
 public:
  FoldedAttention(BlockRecorder& r, Value normed)
      : r_(r), c_(r.context()), normed_(normed), steps_(static_cast<std::size_t>(c_.tsp())) {
    const TransformerShape& s = c_.shape();
    qkv_ = column_parallel(r, "qkv", s.qkv_size(), s.hidden, s.biases != Biases::none,
                           {s.q_size(), s.kv_size(), s.kv_size()});
    projection_ = row_parallel(r, "projection", s.hidden, s.q_size(), s.biases == Biases::all);
  }

  // The projected context, summed over all owners.
  Value run() {
    const int owners = c_.tsp();
    const bool ahead = c_.layout().tsp.prefetch > 0;
    Value sum = no_value;
    gather(0);
    for (int owner = 0; owner < owners; ++owner) {
      if (ahead && owner + 1 < owners) gather(owner + 1);
      sum = attend(owner, sum);
      if (!ahead && owner + 1 < owners) gather(owner + 1);
    }
    return sum;
  }

  Value bias() const { return projection_.bias; }

 private:
  struct Step {
    Value projection = no_value;  // the visiting weight
    Value q = no_value;
    KeysValues gathered;
  };

  void gather(int owner) {
    const TransformerShape& s = c_.shape();
    Step& step = steps_[static_cast<std::size_t>(owner)];
    const HeldPart part = part_of_owner(owner);
    std::vector<Value> sent = weights_of(qkv_), visitors;
    sent.push_back(projection_.weight);
    for (const Value own : sent) {
      BlockValue value = visitor(r_.block().spec(own), part);
      value.re_emit = c_.layout().tsp.regather ? ReEmit::always : ReEmit::kept;
      visitors.push_back(r_.add(std::move(value)));
    }
    OpAttributes attributes;
    attributes.root = narrow<std::int16_t>(owner, "root");
    r_.collective(OpKind::broadcast, "attention weights", c_.weight_stream, c_.sequence_group, sent, visitors,
                  attributes);
    step.projection = visitors.back();
    const Linear qkv{visitors[0], qkv_.bias == no_value ? no_value : visitors[1]};
    const auto heads = [&](const char* name, std::int64_t count) {
      return r_.local(name, c_.tokens({visiting(c_, count, part), {s.head_dim, 0}}), c_.activation_type());
    };
    step.q = heads("q", s.heads);
    Value k = heads("k", s.kv_heads);
    const Value v = heads("v", s.kv_heads);
    matmul(r_, "qkv", normed_, qkv, {step.q, k, v});
    if (s.position == Position::rope) {
      const Value q_turned = r_.local_like("q rotated", step.q);
      const Value k_turned = r_.local_like("k rotated", k);
      r_.op(OpKind::rope, "rope", {step.q, k}, {q_turned, k_turned});
      step.q = q_turned;
      k = k_turned;
    }
    step.gathered = gather_in_rank_order(r_, "keys, values", k, v, ReEmit::always);
  }

  Value attend(int owner, Value sum) {
    const Step& step = steps_[static_cast<std::size_t>(owner)];
    const KeysValues all = in_sequence_order(r_, "keys, values", step.gathered, ReEmit::always);
    const Value context = fused_attention(r_, step.q, all.k, all.v, visible_of_sequence(c_));
    const bool last = owner + 1 == c_.tsp();
    BlockValue value;
    value.spec = make_spec(last ? "projection" : fmt::format("projection of {} owners", owner + 1),
                           c_.tokens({{c_.shape().hidden, 0}}), c_.activation_type(), 0, c_.grid);
    value.alias = sum;
    const Value total = r_.add(std::move(value));
    matmul(r_, "projection", context, {step.projection, no_value}, {total}, sum);
    return total;
  }

  BlockRecorder& r_;
  const ModuleContext& c_;
  const Value normed_;
  Linear qkv_, projection_;
  std::vector<Step> steps_;  // by owner
};

// What the backward of the ring needs to know.
struct MlpRing {
  Value normed = no_value, narrowed = no_value;
  Linear fc1, fc2;                        // the rank's own
  std::vector<Value> first;               // fc1 and fc2 as the first visitors
  std::vector<Value> widened, activated;  // by step
};

OpAttributes hop_attributes(const ModuleContext& c) {
  OpAttributes attributes;
  // Along one link per hop, or split over as many rings as the links between the members hold without sharing one:
  // n − 1, but n − 2 of 4 or 6 members (Tillson 1980).
  if (c.layout().tsp.ring == RingKind::striped) {
    const int members = std::min(c.tsp(), c.scenario->cluster.node.gpus);
    const int rings = members == 4 || members == 6 ? members - 2 : members - 1;
    attributes.stripes = narrow<std::uint16_t>(std::max(1, rings), "stripes");
  }
  return attributes;
}

std::string hop_label(const std::string& what, int step) { return fmt::format("{} step {}", what, step); }

// The shards in use and under way; `hop` sends what step s used on, `prefetch` steps ahead of its use.
class ShardRing {
 public:
  using Hop = std::function<std::vector<Value>(const std::vector<Value>& sent, int step)>;

  ShardRing(const ModuleContext& c, std::vector<Value> own, Hop hop)
      : length_(c.tsp()), prefetch_(c.layout().tsp.prefetch), hop_(std::move(hop)) {
    shards_.push_back(std::move(own));
  }

  // The shard of this step; what is to be sent before its use is.
  const std::vector<Value>& begin(int step) {
    send_up_to(step + prefetch_);
    return shards_[static_cast<std::size_t>(step)];
  }
  void end(int step) { send_up_to(step + 1); }

 private:
  void send_up_to(int step) {
    while (static_cast<int>(shards_.size()) <= std::min(step, length_ - 1))
      shards_.push_back(hop_(shards_.back(), static_cast<int>(shards_.size()) - 1));
  }

  const int length_;
  const int prefetch_;
  Hop hop_;
  std::vector<std::vector<Value>> shards_;  // by step
};

class MlpBackward {
 public:
  MlpBackward(Adjoint& adjoint, const MlpRing& ring)
      : a_(adjoint), c_(adjoint.context()), ring_(ring), length_(c_.tsp()) {}

  void run() {
    const Value dy = a_.gradient(ring_.narrowed);
    const Value x = a_.needed(ring_.normed);
    ShardRing weights(c_, ring_.first, [&](const std::vector<Value>& sent, int step) {
      return hop("mlp weights", step, sent, step + 1, false);
    });
    // The bias has no data gradient: only its gradient travels.
    std::vector<Value> gradients;
    Value dx = no_value;
    for (int step = 0; step < length_; ++step) {
      const std::vector<Value> shard = weights.begin(step);
      dx = use(shard, step, dy, x, dx, gradients);
      weights.end(step);
      gradients = hop("mlp weight gradients", step, gradients, (step + 1) % length_, true);
    }
    a_.contribute(ring_.normed, dx);
    add_to_main(ring_.fc1.weight, "fc1", gradients[0]);
    add_to_main(ring_.fc2.weight, "fc2", gradients[1]);
    if (ring_.fc1.bias != no_value) add_to_main(ring_.fc1.bias, "fc1 bias", gradients[2]);
  }

 private:
  // The gradients that one shard makes; its weight gradients are added to those that came with it.
  Value use(const std::vector<Value>& shard, int step, Value dy, Value x, Value dx, std::vector<Value>& gradients) {
    const auto at = static_cast<std::size_t>(step);
    const Value widened = a_.needed(ring_.widened[at]), activated = a_.needed(ring_.activated[at]);
    const Value d_activated = local(ring_.activated[at], "");
    product(MatmulForm::data_gradient, "fc2", {dy, shard[1]}, d_activated, no_value);
    const Value d_widened = local(ring_.widened[at], "");
    OpAttributes activation;
    activation.activation = c_.shape().activation;
    a_.emit(OpKind::activation_backward, "activation", {d_activated, widened}, {d_widened}, activation);
    const bool last = step + 1 == length_;
    BlockValue sum;
    sum.spec = a_.gradient_spec(ring_.normed);
    if (!last) sum.spec.name += fmt::format(" of {} shards", step + 1);
    sum.category = Category::workspace;
    sum.alias = dx;
    const Value total = a_.add(std::move(sum));
    product(MatmulForm::data_gradient, "fc1", {d_widened, shard[0]}, total, dx);
    std::vector<Value> made;
    const auto came = [&](std::size_t i) { return gradients.empty() ? no_value : gradients[i]; };
    const auto weight = [&](Value parameter, std::size_t i) {
      BlockValue value = gradient_of(parameter, step, fmt::format(" up to step {}", step));
      value.alias = came(i);
      made.push_back(a_.add(std::move(value)));
      return made.back();
    };
    product(MatmulForm::weight_gradient, "fc1", {d_widened, x}, weight(ring_.fc1.weight, 0), came(0));
    product(MatmulForm::weight_gradient, "fc2", {dy, activated}, weight(ring_.fc2.weight, 1), came(1));
    if (ring_.fc1.bias != no_value) {
      std::vector<Value> reads{d_widened};
      OpAttributes attributes;
      attributes.accumulates = came(2) != no_value;
      if (attributes.accumulates) reads.push_back(came(2));
      const Value db = weight(ring_.fc1.bias, 2);
      emit_weight_now(OpKind::bias_gradient, "fc1 bias", reads, db, attributes);
    }
    gradients = made;
    return total;
  }

  void product(MatmulForm form, const std::string& label, std::vector<Value> reads, Value written, Value added) {
    OpAttributes attributes;
    attributes.matmul = form;
    attributes.accumulates = added != no_value;
    if (attributes.accumulates) reads.push_back(added);
    if (form == MatmulForm::weight_gradient) return emit_weight_now(OpKind::matmul, label, reads, written, attributes);
    a_.emit(OpKind::matmul, label, std::move(reads), {written}, attributes);
  }

  // The gradient travels on at once: it waits for no communication.
  void emit_weight_now(OpKind kind, const std::string& label, std::vector<Value> reads, Value written,
                       const OpAttributes& attributes) {
    BlockOp op;
    op.spec.kind = kind;
    op.spec.phase = Phase::backward_weight;
    op.spec.module = c_.module;
    op.spec.label = label;
    op.spec.attributes = attributes;
    op.reads = std::move(reads);
    op.writes = {written};
    a_.push(std::move(op));
  }

  Value local(Value forward, const std::string& what) {
    BlockValue value;
    value.spec = a_.gradient_spec(forward);
    value.spec.name += what;
    value.category = Category::workspace;
    return a_.add(std::move(value));
  }

  // Of the shard in use at `step`: the sum over the ranks that it visited, partial over tokens.
  BlockValue gradient_of(Value parameter, int step, const std::string& what) const {
    BlockValue value = visitor(a_.spec(parameter), part_after_hops(step));
    value.spec.name = "d(" + a_.spec(parameter).name + ")" + what;
    value.spec.dtype = c_.scenario->precision.main_gradients;
    value.spec.partial = static_cast<AxisMask>(c_.dp_axis | c_.tsp_axis);
    value.category = Category::workspace;
    return value;
  }

  std::vector<Value> hop(const std::string& what, int step, const std::vector<Value>& sent, int hops, bool gradient) {
    std::vector<Value> received;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const Value parameter = i == 0 ? ring_.fc1.weight : i == 1 ? ring_.fc2.weight : ring_.fc1.bias;
      BlockValue value = visitor(a_.spec(parameter), part_after_hops(hops));
      if (gradient) {
        value = gradient_of(parameter, hops, fmt::format(" from {} ranks", step + 1));
        value.category = Category::communication;
        if (hops == 0) value.spec = a_.spec(a_.main_gradient(parameter, c_.dp_axis));
        if (hops == 0) value.spec.name = "d(" + a_.spec(parameter).name + ")";
      }
      received.push_back(a_.add(std::move(value)));
    }
    a_.push(ring_hop(c_, Phase::backward_data, hop_label(what, step), c_.weight_stream, sent, received,
                     hop_attributes(c_)));
    return received;
  }

  void add_to_main(Value parameter, const std::string& label, Value gradient) {
    const Value main = a_.main_gradient(parameter, c_.dp_axis);
    // The last hop has the attention's backward to arrive in.
    a_.emit_weight_late(OpKind::add, label, {gradient}, {main});
  }

  Adjoint& a_;
  const ModuleContext& c_;
  const MlpRing& ring_;
  const int length_;
};

}  // namespace

Value folded_attention(BlockRecorder& r, Value x) {
  FoldedAttention attention(r, norm(r, "norm1", x));
  const Value projected = attention.run();
  return residual_add(r, "attention output", "attention residual", x, projected, attention.bias());
}

Value folded_mlp(BlockRecorder& r, Value x) {
  const ModuleContext& c = r.context();
  const TransformerShape& s = c.shape();
  const bool bias = s.biases == Biases::all;
  MlpRing ring;
  ring.normed = norm(r, "norm2", x);
  ring.fc1 = column_parallel(r, "fc1", s.fc1_size(), s.hidden, bias,
                             s.gated() ? std::vector{s.ffn, s.ffn} : std::vector<std::int64_t>{});
  ring.fc2 = row_parallel(r, "fc2", s.hidden, s.ffn, bias);
  const auto recorded = std::make_shared<MlpRing>();
  r.begin_region([recorded](Adjoint& adjoint) { MlpBackward(adjoint, *recorded).run(); });
  // The own shard is the first visitor.
  const int length = c.tsp();
  std::vector<Value> own = weights_of(ring.fc1);
  own.insert(own.begin() + 1, ring.fc2.weight);
  const auto as_visitor = [&](Value weight, Value parameter, int hops) {
    BlockValue value = visitor(r.block().spec(parameter), part_after_hops(hops));
    value.alias = weight;
    return r.add(std::move(value));
  };
  std::vector<Value> first;
  for (const Value weight : own) first.push_back(as_visitor(weight, weight, 0));
  ShardRing weights(c, first, [&](const std::vector<Value>& sent, int step) {
    std::vector<Value> received;
    for (const Value weight : own) received.push_back(as_visitor(no_value, weight, step + 1));
    r.hop(hop_label("mlp weights", step), c.weight_stream, sent, received, hop_attributes(c));
    return received;
  });
  ring.first = {first[0], first[1]};
  Value sum = no_value;
  for (int step = 0; step < length; ++step) {
    const std::vector<Value> shard = weights.begin(step);
    const HeldPart part = part_after_hops(step);
    const Value widened = r.local("fc1", c.tokens({visiting(c, s.fc1_size(), part)}), c.activation_type());
    matmul(r, "fc1", ring.normed, {shard[0], bias ? shard[2] : no_value}, {widened});
    const Value activated = r.local("activation", c.tokens({visiting(c, s.ffn, part)}), c.activation_type());
    OpAttributes attributes;
    attributes.activation = s.activation;
    r.op(OpKind::activation, "activation", {widened}, {activated}, attributes);
    BlockValue value;
    value.spec = make_spec(step + 1 == length ? "fc2" : fmt::format("fc2 of {} shards", step + 1),
                           c.tokens({{s.hidden, 0}}), c.activation_type(), 0, c.grid);
    value.alias = sum;
    const Value total = r.add(std::move(value));
    matmul(r, "fc2", activated, {shard[1], no_value}, {total}, sum);
    weights.end(step);
    sum = total;
    ring.widened.push_back(widened);
    ring.activated.push_back(activated);
  }
  r.end_region();
  ring.narrowed = sum;
  *recorded = ring;
  return residual_add(r, "hidden", "mlp residual", x, sum, ring.fc2.bias);
}

Value gathered_table(BlockRecorder& r, Value own, const std::string& use) {
  const ModuleContext& c = r.context();
  BlockValue value;
  value.spec = r.block().spec(own);
  value.spec.name += " gathered";
  value.spec.dimensions[0].size *= c.tsp();
  value.spec.dimensions[0].sharded_over = 0;
  value.category = Category::communication;
  value.re_emit = ReEmit::always;
  const Value whole = r.add(std::move(value));
  r.collective(OpKind::all_gather, use + " table", c.weight_stream, c.sequence_group, {own}, {whole});
  return whole;
}

}  // namespace meshweave
