// The work of an op: FLOPs and bytes of memory traffic, from its kind and the shapes of its operands.
//
// FLOPs are those of matrix products, as in the literature's MFU and HFU; a multiply-add counts as 2. With W of
// [n, k] a matmul of m tokens is 2·m·n·k in each of its three forms. Causal attention counts the executed half:
// 4·b·a·d·s²/2 forward, 2.5 times that backward; unfused attention computes all pairs. Every other kernel is
// bound by memory and counts none.
//
// On a shard of the sequence the share of visible pairs is that of the rank's tokens (OpAttributes::visible).
//
// Traffic is every operand once (fused attention: its operands only; a tensor that is accumulated into is read and
// written). Look-ups (embeddings, positions) touch their rows only.
//
// Operands that program.h leaves open: weights are [outputs, inputs]; q, k, v and o are [s, b, heads, d]; a
// batched matmul reads (q, k), (p, v), (do, v), (do, p), (ds, k) or (ds, q), in the order of BatchedForm.
#pragma once

#include <cstdint>

#include "sim/program/program.h"

namespace meshweave {

struct Work {
  double flops = 0;
  double bytes = 0;
  // Matmuls: the product's shape, `batch` of them.
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  // Attention: sequence lengths and head dimension.
  std::int64_t q_length = 0, kv_length = 0, head_dim = 0;
  double visible = 1;  // share of the (query, key) pairs that are computed
};

Work work_of(const Program& program, const OpSpec& spec);
// Communication: bytes of the rank's own input and output.
std::int64_t input_bytes(const Program& program, const OpSpec& spec);
std::int64_t output_bytes(const Program& program, const OpSpec& spec);

}  // namespace meshweave
