// The arithmetic of every compute op, on arrays in memory: what the in-process executor runs.
//
// All values are of one floating type, whatever the program's dtypes; a cast is an identity, ids and masks
// are whole numbers. Operands are those of OpKind (sim/program/program.h), row-major. Layouts: weights
// [outputs, inputs]; q, k, v [s, b, heads, d]; scores [s, b, heads, s of the keys]; statistics [s, b, 2]:
// mean and 1/deviation, or [s, b, 1]: 1/root mean square.
//
// Equations: GELU with the error function (Hendrycks and Gimpel 1606.08415), SwiGLU (Shazeer 2002.05202),
// squared ReLU (So et al. 2109.08668), RoPE on the two halves of a head (Su et al. 2104.09864), fused
// attention with its backward from the log-sum-exp (Dao 2307.08691), cross entropy over a vocabulary shard
// (Shoeybi et al. 1909.08053), Adam (1412.6980).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/geometry.h"

namespace meshweave {

// An operand in contiguous memory.
template <class T>
struct Operand {
  T* data = nullptr;
  Geometry at;

  const TensorSpec& spec() const { return *at.spec; }
  std::int64_t size(std::size_t dimension) const { return at.spec->dimensions[dimension].size; }
  std::int64_t elements() const { return at.spec->elements(); }
  std::int64_t tokens() const { return size(0) * size(1); }
  std::int64_t features() const { return elements() / tokens(); }
};

template <class T>
struct KernelCall {
  const OpSpec* spec = nullptr;
  Coordinates coordinates{};  // of the rank in the grid of the first written operand
  int step = 0;               // training step, from 0
  int layer = -1;
  int micro_batch = -1;
  std::uint64_t seed = 0;
  std::vector<Operand<T>> reads;
  std::vector<Operand<T>> writes;  // an operand that is accumulated into holds the value before
};

template <class T>
void run_kernel(const KernelCall<T>& call);

// Constants of the equations.
constexpr double norm_epsilon = 1e-5;
constexpr double rope_base = 10000;

}  // namespace meshweave
