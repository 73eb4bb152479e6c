#include "sim/report/closed_forms.h"

namespace meshweave {
namespace {

double share_of_others(double n) { return (n - 1) / n; }

// The symbols of the header.
struct Symbols {
  double h, g, f, matrices;
  double tokens, sequence;     // B·S, S
  double x;                    // bytes of an activation of the whole sequence
  double t, ulysses, ring, d;  // degrees; Σ = ulysses · ring
  double attention, mlp;       // weights

  explicit Symbols(const Scenario& s) {
    const TransformerShape& shape = s.model[0].shape;
    const ModuleLayout& layout = s.layout_by_module[0];
    h = static_cast<double>(shape.hidden);
    g = static_cast<double>(shape.heads) / static_cast<double>(shape.kv_heads);
    f = static_cast<double>(shape.ffn) / h;
    matrices = shape.gated() ? 3 : 2;
    sequence = static_cast<double>(shape.sequence);
    tokens = static_cast<double>(s.batch.micro) * sequence;
    x = tokens * h * static_cast<double>(bytes_of(s.precision.activations));
    t = layout.tp;
    ulysses = layout.cp.ulysses;
    ring = layout.cp.ring();
    d = layout.tsp.degree;
    attention = (2 + 2 / g) * h * h;
    mlp = matrices * f * h * h;
  }

  double shards() const { return t * ulysses * ring * d; }
  double weights() const { return attention + mlp; }
  // Tensor parallelism's two all-reduces, or their gathers and scatters.
  double tensor() const { return 4 * x / (ulysses * ring) * share_of_others(t); }
  // Heads of Ulysses there and back.
  double heads() const { return (2 + 2 / g) * x / (t * ulysses * ring) * share_of_others(ulysses); }
  // Keys and values of the whole sequence, once.
  double keys_values() const { return 2 / g * x / (t * ulysses) * (share_of_others(ring) + share_of_others(d)); }
  // Their gradients, which go round the ring with them and home.
  double ring_gradients() const { return 2 / g * x / (t * ulysses); }
};

double backward_bytes(const Scenario& s, const Symbols& y, double forward, double weight_bytes) {
  const ModuleLayout& layout = s.layout_by_module[0];
  const bool full = layout.recompute == Recompute::full;
  const double gradient_bytes = static_cast<double>(bytes_of(s.precision.main_gradients));
  double bytes = y.tensor() + y.heads();
  // Megatron's sequence parallelism gathers the inputs of its two column-parallel products again.
  if (layout.sequence_parallel) bytes += y.tensor() / 2;
  if (y.d > 1) {
    bytes +=
        (y.weights() * weight_bytes + y.attention * gradient_bytes) * share_of_others(y.d) + y.mlp * gradient_bytes;
    bytes += 2 * y.keys_values();
  } else if (layout.cp.ring() > 1) {
    const bool gathers = layout.cp.kind == ContextKind::all_gather;
    const bool kept = gathers && (!layout.cp.regather || layout.keep == Keep::keys_values);
    if (!kept) bytes += y.keys_values();
    bytes += gathers ? y.keys_values() : y.ring_gradients();
  }
  if (full) bytes += forward;
  if (full && layout.keep == Keep::keys_values) bytes -= y.keys_values();
  return bytes;
}

}  // namespace

LayerWork closed_form_of_layer(const Scenario& s) {
  const Symbols y(s);
  const double weight_bytes = static_cast<double>(bytes_of(s.precision.parameters));
  LayerWork work;
  work.forward_bytes = y.tensor() + y.heads() + y.keys_values() + y.weights() * weight_bytes * share_of_others(y.d);
  const TransformerShape& shape = s.model[0].shape;
  const double visible = shape.fused_attention && shape.mask == AttentionMask::causal ? 0.5 : 1;
  const double products = 2 * y.weights() * y.tokens / y.shards();
  const double attention = 4 * y.tokens * y.sequence * y.h * visible / y.shards();
  work.forward_flops = products + attention;
  if (s.pass == Pass::forward) return work;
  work.backward_bytes = backward_bytes(s, y, work.forward_bytes, weight_bytes);
  // Fused attention makes its scores again; unfused attention is asked for them by selective recomputation.
  work.backward_flops = 2 * products + (shape.fused_attention ? 2.5 : 2) * attention;
  switch (s.layout_by_module[0].recompute) {
    case Recompute::none: break;
    case Recompute::selective: work.backward_flops += (shape.fused_attention ? 1 : 0.5) * attention; break;
    case Recompute::full: work.backward_flops += work.forward_flops; break;
  }
  return work;
}

double closed_form_of_states(const Scenario& s) {
  const Symbols y(s);
  const ModuleLayout& layout = s.layout_by_module[0];
  const Precision& precision = s.precision;
  double bytes = static_cast<double>(bytes_of(precision.parameters));
  if (s.pass == Pass::train) {
    double state = 2 * static_cast<double>(bytes_of(precision.moments)) + precision.workspace_bytes_per_parameter;
    if (precision.main_parameters != precision.parameters)
      state += static_cast<double>(bytes_of(precision.main_parameters));
    const double owners = layout.dp * layout.cp.degree / layout.optimizer_instances;
    bytes += static_cast<double>(bytes_of(precision.main_gradients)) + (layout.zero > 0 ? state / owners : state);
  }
  return bytes * y.weights() * static_cast<double>(s.model[0].shape.layers) / layout.pp / (y.t * y.d);
}

}  // namespace meshweave
