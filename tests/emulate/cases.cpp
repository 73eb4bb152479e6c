#include "tests/emulate/cases.h"

#include <fmt/format.h>

#include "sim/base/random.h"
#include "tests/support/dense_scenario.h"

namespace meshweave::testing {

namespace {

enum Name : std::size_t {
  tp,
  sequence_parallel,
  tp_overlap,
  pp,
  vpp,
  stages,
  dp,
  zero,
  instances,
  recompute,
  schedule,
  activation,
  norm,
  kv_heads,
  dropout,
  attention,
  embeddings,
  position,
  biases,
  mask,
  main_parameters,
  clip,
  overlap,
  batch,
  sequence
};

// What shards the sequence: the values of the factor of that name.
enum Sequence : std::uint8_t {
  whole,
  ring,
  ring_contiguous,
  gather,
  gather_contiguous,
  ulysses,
  ulysses_ring,
  folded,
  folded_contiguous,
  folded_in_turn
};

bool is_folded(const Case& c) { return c[sequence] >= folded; }
bool has_ring(const Case& c) {
  return c[sequence] == ring || c[sequence] == ring_contiguous || c[sequence] == ulysses_ring;
}
bool exchanges_heads(const Case& c) { return c[sequence] == ulysses || c[sequence] == ulysses_ring; }
// Log₂ of the ranks that share a sequence.
int sequence_bits(const Case& c) {
  return c[sequence] == whole ? 0 : c[sequence] == ulysses_ring || c[sequence] == folded_contiguous ? 2 : 1;
}

void shard_sequence(const Case& c, DenseOptions& o) {
  const int ranks = 1 << sequence_bits(c);
  if (is_folded(c)) {
    o.tsp.degree = ranks;
    o.tsp.partition = c[sequence] == folded_contiguous ? Partition::contiguous : Partition::zigzag;
    o.tsp.prefetch = c[sequence] == folded_in_turn ? 0 : ranks / 2;
    return;
  }
  o.cp.degree = ranks;
  o.cp.ulysses = exchanges_heads(c) ? 2 : 1;
  o.cp.kind = has_ring(c)          ? c[sequence] == ulysses_ring ? ContextKind::ulysses_ring : ContextKind::ring
              : exchanges_heads(c) ? ContextKind::ulysses
                                   : ContextKind::all_gather;
  const bool contiguous = c[sequence] == ring_contiguous || c[sequence] == gather_contiguous;
  o.cp.partition = contiguous ? Partition::contiguous : Partition::zigzag;
  o.cp.regather = !contiguous;
  o.cp_overlap = !contiguous;
}

}  // namespace

// The first value of each is the simplest.
const std::vector<Factor>& factors() {
  static const std::vector<Factor> all{
      {"tp", {"1", "2", "4"}},
      {"sequence parallel", {"off", "on"}},
      {"tp overlap", {"off", "2 pieces", "2 pieces, depth 3"}},
      {"pp", {"1", "2", "4"}},
      {"vpp", {"1", "2"}},
      {"stages", {"even", "uneven", "empty ends"}},
      {"dp", {"1", "2", "4"}},
      {"zero", {"0", "1"}},
      {"instances", {"1", "2"}},
      {"recompute", {"none", "selective", "full"}},
      {"schedule", {"1f1b", "gpipe", "1f1b, weight gradients behind the send"}},
      {"activation", {"gelu", "swiglu", "squared relu"}},
      {"norm", {"layer norm", "rms norm"}},
      {"kv heads", {"8", "4", "1"}},
      {"dropout", {"0", "0.2"}},
      {"attention", {"fused", "unfused"}},
      {"embeddings", {"untied", "tied"}},
      {"position", {"none", "learned", "rope"}},
      {"biases", {"none", "qkv", "all"}},
      {"mask", {"causal", "full"}},
      {"main parameters", {"apart", "the parameters"}},
      {"clip", {"off", "on"}},
      {"data overlap", {"on", "off", "gradients", "parameters"}},
      {"micro-batches", {"1 per stage", "2 per stage, 2 samples", "an odd number"}},
      {"sequence",
       {"whole", "ring", "ring, contiguous, no overlap", "gather", "gather, contiguous, kept", "ulysses",
        "ulysses-ring of 4", "tsp", "tsp of 4, contiguous", "tsp, no overlap"}},
  };
  return all;
}

bool is_legal(const Case& c) {
  if (c[sequence_parallel] && !c[tp]) return false;
  if (c[tp_overlap] && !c[sequence_parallel]) return false;
  if (c[vpp] && (!c[pp] || c[schedule] == 1 || c[batch] == 2)) return false;
  if (c[stages] && !c[pp]) return false;
  if (c[instances] && (!c[zero] || !c[dp])) return false;
  if (c[kv_heads] == 2 && c[tp]) return false;
  if (is_folded(c) && (c[tp] || c[schedule] == 2 || c[attention] || c[kv_heads] == 2)) return false;
  if (has_ring(c) && c[attention]) return false;
  if (exchanges_heads(c) && (c[kv_heads] == 2 || (c[kv_heads] == 1 && c[tp] == 2))) return false;
  // Two pieces of the share of each of tp ranks.
  if (c[tp_overlap] && sequence_bits(c) == 2 && c[tp] == 2) return false;
  const int ranks = 1 << (c[tp] + c[pp] + c[dp] + sequence_bits(c));
  return ranks <= 16;
}

Scenario scenario_of(const Case& c) {
  DenseOptions o;
  o.tp = 1 << c[tp];
  o.pp = 1 << c[pp];
  o.dp = 1 << c[dp];
  o.vpp = 1 + c[vpp];
  o.sequence_parallel = c[sequence_parallel];
  o.tp_chunks = c[tp_overlap] ? 2 : 0;
  o.depth = c[tp_overlap] == 2 ? 3 : 1;
  o.zero = c[zero];
  o.optimizer_instances = 1 + c[instances];
  o.recompute = static_cast<Recompute>(c[recompute]);
  o.schedule = c[schedule] == 1 ? ScheduleKind::gpipe : ScheduleKind::one_f_one_b;
  o.defer_weight_gradients = c[schedule] == 2;
  o.activation = static_cast<Activation>(c[activation]);
  o.norm = static_cast<Norm>(c[norm]);
  o.heads = 8;
  o.kv_heads = c[kv_heads] == 0 ? 8 : c[kv_heads] == 1 ? 4 : 1;
  o.dropout = c[dropout] ? 0.2 : 0;
  o.fused_attention = c[attention] == 0;
  o.tied = c[embeddings];
  o.position = c[position] == 0 ? Position::none : c[position] == 1 ? Position::learned : Position::rope;
  o.biases = static_cast<Biases>(c[biases]);
  o.micro = c[batch] == 1 ? 2 : 1;
  o.micro_batches = c[batch] == 2 ? 3 : (1 + c[batch]) * o.pp;
  o.grad_reduce = c[overlap] == 0 || c[overlap] == 2;
  o.param_gather = c[overlap] == 0 || c[overlap] == 3;
  o.hidden = 16;
  o.ffn = 12;
  o.sequence = sequence_bits(c) == 0 ? 8 : 16;
  shard_sequence(c, o);
  o.vocabulary = 13;
  Scenario s = dense_scenario(o);
  TransformerShape& shape = s.model[0].shape;
  shape.head_dim = 4;
  shape.vocabulary_multiple = 4;
  shape.mask = static_cast<AttentionMask>(c[mask]);
  if (c[stages]) {
    std::vector<int>& layers = s.layout_by_module[0].stages;
    if (c[stages] == 1) {
      layers.front() += 1;
    } else {
      layers.front() -= 1;
      layers.back() -= 1;
      layers[1] += layers.size() == 2 ? 0 : 1;
      if (layers.size() == 2) layers.front() += 1;
    }
    shape.layers = 0;
    for (const int n : layers) shape.layers += n;
  }
  if (c[main_parameters]) s.precision.main_parameters = s.precision.parameters;
  s.optimizer.clip = c[clip] ? 0.5 : 0;
  s.optimizer.bucket_parameters = 700;
  s.seed = 3;
  return s;
}

std::string describe(const Case& c) {
  std::string text;
  for (std::size_t f = 0; f < factor_count; ++f) {
    if (c[f] != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : "; ", factors()[f].name, factors()[f].values[c[f]]);
  }
  return text.empty() ? "the simplest case" : text;
}

bool draw_case(std::uint64_t seed, std::uint64_t index, const std::vector<std::pair<std::size_t, std::uint8_t>>& fixed,
               int tries, Case& result) {
  std::uint64_t drawn = 0;
  for (int i = 0; i < tries; ++i) {
    for (std::size_t f = 0; f < factor_count; ++f) {
      result[f] = static_cast<std::uint8_t>(random_bits(seed, stream_key("case") + index, drawn++) %
                                            factors()[f].values.size());
    }
    for (const auto& [f, value] : fixed) result[f] = value;
    if (is_legal(result)) return true;
  }
  return false;
}

Case shrink(const Case& failing, const std::function<bool(const Case&)>& fails) {
  Case smallest = failing;
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (std::size_t f = 0; f < factor_count; ++f) {
      if (smallest[f] == 0) continue;
      Case next = smallest;
      next[f] = 0;
      if (!is_legal(next) || !fails(next)) continue;
      smallest = next;
      smaller = true;
    }
  }
  return smallest;
}

}  // namespace meshweave::testing
