// The work of an op: FLOPs and bytes of memory traffic, from its kind and the shapes of its operands.
//
// A multiply-add counts as 2 FLOPs. Causal attention counts the executed half: 4·b·a·d·s²/2 forward, 2.5 times
// that backward. Memory traffic is every operand once (fused attention: its operands only).
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
};

Work work_of(const Program& program, const OpSpec& spec);
// Communication: bytes of the rank's own input and output.
std::int64_t input_bytes(const Program& program, const OpSpec& spec);
std::int64_t output_bytes(const Program& program, const OpSpec& spec);

}  // namespace meshweave
