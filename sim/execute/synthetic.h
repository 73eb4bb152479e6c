// The synthetic model and data: every element of a parameter, a dropout mask and a batch is a pure function
// of (seed, name, index in the whole tensor), so that every layout starts from the same model and sees the
// same data.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/base/random.h"

namespace meshweave {

// The key of a named stream of a layer; layer −1 is outside layers.
constexpr std::uint64_t synthetic_key(std::string_view name, int module, int layer) {
  return mix_bits(stream_key(name) ^
                  mix_bits(static_cast<std::uint64_t>(module) << 32 | static_cast<std::uint32_t>(layer + 1)));
}

// The initial value of element `index` (row-major in the whole tensor) of a parameter. Matrices, with
// `columns` > 0, are normal with deviation 1/√columns; the weights of norms are 1 + 0.1·normal, biases
// 0.1·normal.
double initial_value(std::uint64_t seed, std::uint64_t key, std::int64_t index, std::int64_t columns, bool is_bias);

// Token `position` of a sample: an arithmetic progression modulo the vocabulary, whose start and step the
// sample draws. The label of a position is the next token.
std::int64_t synthetic_token(std::uint64_t seed, int step, std::int64_t sample, std::int64_t position,
                             std::int64_t vocabulary);

// Whether dropout of probability `p` keeps element `index` in step `step`.
inline bool dropout_keeps(std::uint64_t seed, std::uint64_t key, int step, std::int64_t index, double p) {
  return random_uniform(seed, mix_bits(key ^ static_cast<std::uint64_t>(step)), static_cast<std::uint64_t>(index)) >= p;
}

}  // namespace meshweave
