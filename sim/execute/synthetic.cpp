#include "sim/execute/synthetic.h"

#include <algorithm>

namespace meshweave {

double initial_value(std::uint64_t seed, std::uint64_t key, std::int64_t index, std::int64_t columns, bool is_bias) {
  const double normal = random_normal(seed, key, static_cast<std::uint64_t>(index));
  if (columns > 0) return normal / std::sqrt(static_cast<double>(columns));
  return is_bias ? 0.1 * normal : 1 + 0.1 * normal;
}

std::int64_t synthetic_token(std::uint64_t seed, int step, std::int64_t sample, std::int64_t position,
                             std::int64_t vocabulary) {
  constexpr std::int64_t strides = 4;
  const std::uint64_t stream = mix_bits(stream_key("tokens") ^ static_cast<std::uint64_t>(step));
  const auto drawn = [&](std::uint64_t which, std::int64_t below) {
    return static_cast<std::int64_t>(random_bits(seed, stream, 2 * static_cast<std::uint64_t>(sample) + which) %
                                     static_cast<std::uint64_t>(below));
  };
  const std::int64_t stride = 1 + drawn(1, std::min(strides, vocabulary));
  return (drawn(0, vocabulary) + stride * position) % vocabulary;
}

}  // namespace meshweave
