// Counter-based random numbers with named streams: the same (seed, stream, index) gives the same number on every
// machine and in any order, so results do not depend on threads or on how a run is folded.
//
// Generator: SplitMix64's finaliser (Steele, Lea, Flood 2014) over a key mixed from seed, stream and index.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace meshweave {

constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// FNV-1a of a stream's name.
constexpr std::uint64_t stream_key(std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return h;
}

constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return mix_bits(mix_bits(mix_bits(seed) ^ stream) ^ index);
}

// Uniform in [0, 1), with 53 bits.
constexpr double random_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return static_cast<double>(random_bits(seed, stream, index) >> 11) * 0x1.0p-53;
}

// Standard normal by Box-Muller from two uniforms of the same index.
inline double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const double u = 1.0 - random_uniform(seed, stream, 2 * index);
  const double v = random_uniform(seed, stream, 2 * index + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

}  // namespace meshweave
