// The kinds of op, and in one table what is the same for all ops of a kind.
//
// A kind is an enumerator here and a row of the table in the same place of the order, which is checked when it is
// compiled. What asks only for a fact (numbers of operands, bandwidth, work in place) reads the row and knows no kinds;
// what has a rule of its own for each kind (arithmetic, shapes) names them all in a switch without default, so that
// the compiler says where a new kind has none; where few kinds can come, the others end with their name.
//
//   matmul          reads 2 or more, writes 1 or more, may accumulate: reads x, W, y and writes y += x·Wᵀ
//   dropout         reads 1, writes 1 or 2, of which the second (the mask) exists only for a later reader
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace meshweave {

enum class OpKind : std::uint8_t {
  // compute
  matmul,                  // MatmulForm; forward: reads x, W[, bias], writes one or several y (the concatenation of
                           // their last dimensions is the product); data_gradient: reads dy…, W, writes dx;
                           // weight_gradient: reads dy…, x, writes dW. May accumulate
  bias_gradient,           // reads dy…, writes db. May accumulate
  attention,               // fused: reads q, k, v, writes o[, log-sum-exp][, mask]
  attention_backward,      // reads do, q, k, v, o, lse[, mask], writes dq, dk, dv
  attention_merge,         // reads o, lse, o', lse' of the same queries over other keys, writes o, lse over both
  batched_matmul,          // unfused attention, BatchedForm
  softmax,                 // reads scores, writes probabilities
  softmax_backward,        // reads dp, p, writes ds
  dropout,                 // reads x, writes y, mask (1 byte per element)
  dropout_backward,        // reads dy, mask, writes dx
  norm,                    // reads x, γ[, β], writes y[, statistics]
  norm_backward,           // reads dy, x, statistics, γ, writes dx
  norm_weight_gradient,    // reads dy, x, statistics, writes dγ[, dβ]. Accumulates
  activation,              // reads x, writes y
  activation_backward,     // reads dy, x, writes dx
  rope,                    // reads q, k, writes q', k'
  rope_backward,           // reads dq', dk', writes dq, dk
  residual_add,            // reads residual, y[, bias], writes out[, mask]: out = residual + dropout(y + bias)
  add,                     // reads two or more tensors, writes their sum
  embedding,               // reads ids, table, writes y (partial over the axes that shard the vocabulary)
  embedding_gradient,      // reads dy, ids, writes dtable. May accumulate
  position_add,            // reads x, table, writes x + table[position]
  position_gradient,       // reads dy, writes dtable. Accumulates
  cross_entropy_max,       // reads logits, writes the local maximum per token
  cross_entropy_sum,       // reads logits, maximum, labels, writes exp(logits − max) and [2]: Σexp, target logit
  cross_entropy_loss,      // reads sums, maximum, writes loss: Σ over tokens × scale. Accumulates
  cross_entropy_backward,  // reads exp, sums, labels, writes dlogits × scale
  reorder,                 // reads x, writes its rows in another order (Dimension::zigzag)
  fill,                    // writes a constant (0)
  gradient_norm,           // reads gradients, writes Σ of squares (replicated tensors count on coordinate 0 only)
  clip,                    // reads Σ of squares and gradients, writes the gradients × min(1, clip/norm)
  adam,                    // reads gradient, main parameter, m, v, writes main parameter, m, v, parameter
  // communication; operands are the rank's own inputs and outputs, as many of each: several are one call (coalesced)
  all_reduce,
  all_gather,
  reduce_scatter,
  reduce,  // the root's result; other members write nothing
  broadcast,
  all_to_all,      // splits `dimension` over the members, joins along `joined`
  point_to_point,  // a batch of messages posted together: reads what is sent, writes what is received
};
constexpr std::size_t op_kind_count = static_cast<std::size_t>(OpKind::point_to_point) + 1;

// How many operands an op may have.
struct Arity {
  std::uint8_t fewest = 0;
  std::uint8_t most = 0;
  constexpr bool fits(std::size_t count) const { return count >= fewest && (most == any || count <= most); }
  static constexpr std::uint8_t any = 0xff;
};

// Whether the results are added to what the written operands hold, which are then read behind all others:
// OpAttributes::accumulates says it of an op.
enum class Accumulation : std::uint8_t { never, may, always };

// What the time of an op follows from, and with it whose constants. A kernel bound by memory takes the bytes of its
// operands over a share of the bandwidth (MemoryModel).
enum class PricedAs : std::uint8_t {
  product,          // tiles and waves
  products,         // the same, one for each head and sample
  fused_attention,  // query blocks
  streaming,        // bytes, at the rate of kernels that read and write whole tensors once
  elementwise,      // bytes, at the rate of elementwise kernels
  norms,            // bytes
  norms_backward,   // bytes
  norm_sums,        // bytes of the partial sums that every compute unit has of the result
  loss_passes,      // bytes of the passes over the logits
  collective,       // the topology's links
  messages,         // the topology's links
};

struct OpFacts {
  enum Trait : std::uint8_t {
    bias = 1,      // OpAttributes::bias is one more operand that is read
    rows = 2,      // touches the rows of a table that it looks up, all other kernels the whole of every operand
    extras = 4,    // outputs behind the first exist only for a later reader: log-sum-exp, statistics, masks
    in_place = 8,  // may write a tensor to the storage of one that it reads
  };
  OpKind kind = OpKind::matmul;
  std::string_view name;
  Arity reads;  // without a bias, and without what is accumulated into
  Arity writes;
  Accumulation accumulation = Accumulation::never;
  PricedAs priced_as = PricedAs::elementwise;
  std::uint8_t traits = 0;

  constexpr bool has(Trait trait) const { return (traits & trait) != 0; }
};

constexpr std::array<OpFacts, op_kind_count> op_facts = [] {
  using enum OpKind;
  using enum Accumulation;
  using enum PricedAs;
  using enum OpFacts::Trait;
  constexpr std::uint8_t any = Arity::any;
  return std::array<OpFacts, op_kind_count>{{
      // clang-format off
    // kind                   name                      reads     writes    adds    priced as        traits
    {matmul,                 "matmul",                 {2, any}, {1, any}, may,    product,         bias},
    {bias_gradient,          "bias-gradient",          {1, any}, {1, 1},   may,    elementwise},
    {attention,              "attention",              {3, 3},   {1, 3},   never,  fused_attention, extras},
    {attention_backward,     "attention-backward",     {6, 7},   {3, 3},   never,  fused_attention},
    {attention_merge,        "attention-merge",        {4, 4},   {1, 2},   never,  elementwise,     extras | in_place},
    {batched_matmul,         "batched-matmul",         {2, 2},   {1, 1},   never,  products},
    {softmax,                "softmax",                {1, 1},   {1, 1},   never,  elementwise},
    {softmax_backward,       "softmax-backward",       {2, 2},   {1, 1},   never,  elementwise},
    {dropout,                "dropout",                {1, 1},   {1, 2},   never,  elementwise,     extras},
    {dropout_backward,       "dropout-backward",       {2, 2},   {1, 1},   never,  elementwise},
    {norm,                   "norm",                   {2, 3},   {1, 2},   never,  norms,           extras},
    {norm_backward,          "norm-backward",          {4, 4},   {1, 1},   never,  norms_backward},
    {norm_weight_gradient,   "norm-weight-gradient",   {3, 3},   {1, 2},   always, norm_sums},
    {activation,             "activation",             {1, 1},   {1, 1},   never,  elementwise},
    {activation_backward,    "activation-backward",    {2, 2},   {1, 1},   never,  elementwise},
    {rope,                   "rope",                   {2, 2},   {2, 2},   never,  elementwise},
    {rope_backward,          "rope-backward",          {2, 2},   {2, 2},   never,  elementwise},
    {residual_add,           "residual-add",           {2, 2},   {1, 2},   never,  streaming,       bias | extras},
    {add,                    "add",                    {2, any}, {1, 1},   never,  streaming,       in_place},
    {embedding,              "embedding",              {2, 2},   {1, 1},   never,  elementwise,     rows},
    {embedding_gradient,     "embedding-gradient",     {2, 2},   {1, 1},   may,    elementwise,     rows},
    {position_add,           "position-add",           {2, 2},   {1, 1},   never,  streaming,       rows},
    {position_gradient,      "position-gradient",      {1, 1},   {1, 1},   always, elementwise,     rows},
    {cross_entropy_max,      "cross-entropy-max",      {1, 1},   {1, 1},   never,  loss_passes},
    {cross_entropy_sum,      "cross-entropy-sum",      {3, 3},   {2, 2},   never,  loss_passes},
    {cross_entropy_loss,     "cross-entropy-loss",     {2, 2},   {1, 1},   always, elementwise},
    {cross_entropy_backward, "cross-entropy-backward", {3, 3},   {1, 1},   never,  loss_passes},
    {reorder,                "reorder",                {1, 1},   {1, 1},   never,  streaming},
    {fill,                   "fill",                   {0, 0},   {1, any}, never,  streaming},
    {gradient_norm,          "gradient-norm",          {0, any}, {1, 1},   never,  streaming},
    {clip,                   "clip",                   {1, any}, {0, any}, never,  streaming},
    {adam,                   "adam",                   {4, any}, {3, any}, never,  streaming},
    {all_reduce,             "all-reduce",             {1, any}, {1, any}, may,    collective,      in_place},
    {all_gather,             "all-gather",             {1, any}, {1, any}, never,  collective,      in_place},
    {reduce_scatter,         "reduce-scatter",         {1, any}, {1, any}, may,    collective,      in_place},
    {reduce,                 "reduce",                 {1, any}, {1, any}, may,    collective,      in_place},
    {broadcast,              "broadcast",              {1, any}, {1, any}, never,  collective,      in_place},
    {all_to_all,             "all-to-all",             {1, any}, {1, any}, never,  collective,      in_place},
    {point_to_point,         "point-to-point",         {0, any}, {0, any}, never,  messages,        in_place},
      // clang-format on
  }};
}();

constexpr const OpFacts& facts_of(OpKind kind) { return op_facts[static_cast<std::size_t>(kind)]; }
constexpr std::string_view name_of(OpKind kind) { return facts_of(kind).name; }
constexpr bool is_collective(OpKind kind) { return facts_of(kind).priced_as == PricedAs::collective; }
constexpr bool is_communication(OpKind kind) {
  return is_collective(kind) || facts_of(kind).priced_as == PricedAs::messages;
}

constexpr bool has_a_row_for_each_kind() {
  for (std::size_t i = 0; i < op_kind_count; ++i) {
    if (static_cast<std::size_t>(op_facts[i].kind) != i || op_facts[i].name.empty()) return false;
  }
  return true;
}
static_assert(has_a_row_for_each_kind(), "one row for each kind of op, in the order of OpKind");

}  // namespace meshweave
