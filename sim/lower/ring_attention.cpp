#include "sim/lower/ring_attention.h"

#include <fmt/format.h>

#include <memory>

#include "sim/lower/adjoint.h"
#include "sim/lower/context_parallel.h"
#include "sim/lower/layer_parts.h"

namespace meshweave {

namespace {

// What the backward needs to know of a recorded ring.
struct Ring {
  Value q = no_value, k = no_value, v = no_value;
  Value context = no_value, lse = no_value;
  std::vector<OpAttributes> attributes;  // by step
};

// A copy of `spec` as the part that came `hops` along the ring.
BlockValue visitor(const TensorSpec& spec, int hops, Category category) {
  BlockValue value;
  value.spec = spec;
  value.spec.name += fmt::format(" {} hops on", hops);
  value.spec.dimensions[0].held = part_after_hops(hops);
  value.category = category;
  return value;
}

std::string step_label(const std::string& what, int step) { return fmt::format("{} step {}", what, step); }

class RingBackward {
 public:
  RingBackward(Adjoint& adjoint, const Ring& ring)
      : adjoint_(adjoint), ring_(ring), length_(adjoint.context().ring()) {}

  void run() {
    const bool overlap = adjoint_.context().scenario->overlap.cp;
    const Value d_context = adjoint_.gradient(ring_.context);
    const Value q = adjoint_.needed(ring_.q);
    const Value context = adjoint_.needed(ring_.context);
    const Value lse = adjoint_.needed(ring_.lse);
    Value k = adjoint_.needed(ring_.k), v = adjoint_.needed(ring_.v);
    const TensorSpec key_spec = adjoint_.spec(k), value_spec = adjoint_.spec(v);
    Value d_q = no_value, d_k = no_value, d_v = no_value;  // sums so far
    for (int step = 0; step < length_; ++step) {
      Value next_k = no_value, next_v = no_value;
      const auto send_keys = [&] {
        if (step + 1 == length_) return;
        next_k = adjoint_.add(visitor(key_spec, step + 1, Category::communication));
        next_v = adjoint_.add(visitor(value_spec, step + 1, Category::communication));
        hop(step_label("keys, values", step), {k, v}, {next_k, next_v});
      };
      if (overlap) send_keys();
      const Value own_q = part(ring_.q, 0, step), own_k = part(ring_.k, step, step), own_v = part(ring_.v, step, step);
      adjoint_.emit(OpKind::attention_backward, "attention", {d_context, q, k, v, context, lse}, {own_q, own_k, own_v},
                    ring_.attributes[static_cast<std::size_t>(step)]);
      if (!overlap) send_keys();
      d_q = sum(d_q, own_q, ring_.q, 0, step);
      // The sum so far has come with the part.
      d_k = sum(d_k, own_k, ring_.k, step, step);
      d_v = sum(d_v, own_v, ring_.v, step, step);
      const int hops = step + 1 == length_ ? 0 : step + 1;
      const Value far_k = arriving(ring_.k, hops), far_v = arriving(ring_.v, hops);
      hop(step_label("key, value gradients", step), {d_k, d_v}, {far_k, far_v});
      d_k = far_k, d_v = far_v;
      k = next_k, v = next_v;
    }
    adjoint_.contribute(ring_.q, d_q);
    adjoint_.contribute(ring_.k, d_k);
    adjoint_.contribute(ring_.v, d_v);
  }

 private:
  void hop(const std::string& label, std::vector<Value> sent, std::vector<Value> received) {
    adjoint_.push(ring_hop(adjoint_.context(), Phase::backward_data, label, adjoint_.context().context_stream,
                           std::move(sent), std::move(received), {}));
  }

  BlockValue gradient_of(Value v, int hops, const std::string& what, Category category) const {
    BlockValue value;
    value.spec = adjoint_.gradient_spec(v);
    value.category = category;
    if (hops > 0) value.spec.dimensions[0].held = part_after_hops(hops);
    value.spec.name += what;
    return value;
  }

  // What one step makes.
  Value part(Value v, int hops, int step) {
    return adjoint_.add(gradient_of(v, hops, fmt::format(" of step {}", step), Category::workspace));
  }

  // A sum that travels; at home it is the whole gradient.
  Value arriving(Value v, int hops) {
    return adjoint_.add(
        gradient_of(v, hops, hops == 0 ? "" : fmt::format(" from {} ranks", hops), Category::communication));
  }

  // before + own, in the place of `before`.
  Value sum(Value before, Value own, Value of, int hops, int step) {
    if (before == no_value) return own;
    BlockValue value = gradient_of(of, hops, fmt::format(" up to step {}", step), Category::workspace);
    if (hops == 0 && step + 1 == length_) value.spec = adjoint_.gradient_spec(of);
    value.alias = before;
    const Value total = adjoint_.add(std::move(value));
    adjoint_.emit(OpKind::add, "gradient sum", {before, own}, {total});
    return total;
  }

  Adjoint& adjoint_;
  const Ring& ring_;
  const int length_;
};

}  // namespace

Value ring_attention(BlockRecorder& r, Value q, Value k, Value v) {
  const ModuleContext& c = r.context();
  const int length = c.ring();
  const bool overlap = c.scenario->overlap.cp;
  Ring ring{q, k, v, no_value, no_value, {}};
  const TensorSpec query_spec = r.block().spec(q);
  const TensorSpec key_spec = r.block().spec(k), value_spec = r.block().spec(v);
  const std::vector<Dimension> rows(query_spec.dimensions.begin(), query_spec.dimensions.begin() + 3);
  // Recompute "selective" goes round again.
  const auto local = [&](BlockValue value) {
    value.re_emit = ReEmit::selective;
    return r.add(std::move(value));
  };
  const auto result = [&](const std::string& name, Value place) {
    BlockValue value;
    value.spec = query_spec;
    value.spec.name = name;
    value.alias = place;
    return value;
  };
  const auto log_sum_exp = [&](const std::string& name, Value place) {
    BlockValue value;
    value.spec = make_spec(name, rows, DType::fp32, 0, c.grid);
    value.alias = place;
    value.secondary = true;
    return local(std::move(value));
  };
  // The block's region is told what was recorded when the backward is derived.
  const auto recorded = std::make_shared<Ring>();
  r.begin_region([recorded](Adjoint& adjoint) { RingBackward(adjoint, *recorded).run(); });
  Value context = no_value, lse = no_value;
  for (int step = 0; step < length; ++step) {
    const bool last = step + 1 == length;
    Value next_k = no_value, next_v = no_value;
    const auto send_keys = [&] {
      if (last) return;
      next_k = local(visitor(key_spec, step + 1, Category::communication));
      next_v = local(visitor(value_spec, step + 1, Category::communication));
      r.hop(step_label("keys, values", step), c.context_stream, {k, v}, {next_k, next_v});
    };
    if (overlap) send_keys();
    OpAttributes attributes = attention_attributes(c);
    attributes.visible = visible_of_part(c, step);
    ring.attributes.push_back(attributes);
    const Value own = local(result(step_label("context", step), no_value));
    const Value own_lse = log_sum_exp(step_label("log-sum-exp", step), no_value);
    r.op(OpKind::attention, "attention", {q, k, v}, {own, own_lse}, attributes);
    if (!overlap) send_keys();
    if (step == 0) {
      context = own, lse = own_lse;
    } else {
      // The merged context is what attention makes: saved like it.
      const Value merged =
          last ? r.add(result("context", context)) : local(result(step_label("context up to", step), context));
      const Value merged_lse = log_sum_exp(last ? "log-sum-exp" : step_label("log-sum-exp up to", step), lse);
      r.op(OpKind::attention_merge, "merge", {context, lse, own, own_lse}, {merged, merged_lse});
      context = merged, lse = merged_lse;
    }
    k = next_k, v = next_v;
  }
  r.end_region();
  ring.context = context, ring.lse = lse;
  *recorded = ring;
  return context;
}

}  // namespace meshweave
