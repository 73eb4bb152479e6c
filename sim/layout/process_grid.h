// A process grid: how a module's ranks are numbered along its parallel axes, and the groups that follow.
//
// The order names the axes from fastest to slowest varying: rank = offset + Σ coordinate(axis) · stride(axis),
// stride = product of the degrees of the faster axes. With order tp-dp-pp and TP2·DP2·PP2: rank 5 = (tp 1, dp 0, pp 1).
// A group is a pattern over coordinates (AxisPattern) so that one description serves every rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshweave {

// Of the axes that shard the sequence, ulysses stands inside cp: together they are the ranks of context parallelism.
// The folded axis tsp shards weights and sequence alike.
enum class Axis : std::uint8_t { tp, ulysses, cp, tsp, ep, dp, pp };
constexpr int axis_count = 7;
std::string_view name_of(Axis);

struct Degrees {
  int tp = 1, ulysses = 1, cp = 1, tsp = 1, ep = 1, dp = 1, pp = 1;
};

// A set of axes, one bit each.
using AxisMask = std::uint8_t;
constexpr AxisMask mask_of(Axis axis) { return static_cast<AxisMask>(1u << static_cast<unsigned>(axis)); }
// "tp+dp"; "-" for the empty set.
std::string names_of(AxisMask mask);

using Coordinates = std::array<int, axis_count>;

// Along one axis, the members of a rank's group: the coordinates c with equal c % stride and equal
// c / (stride·count). The whole axis is {axis, 1, degree}; first and last stage are {pp, pp−1, 2}.
struct AxisPattern {
  Axis axis = Axis::tp;
  int stride = 1;
  int count = 1;
  bool operator==(const AxisPattern&) const = default;
};

class ProcessGrid {
 public:
  // `order` must name every axis of degree > 1, each once ("tp-cp-ep-dp-pp"); else bug(): the reader checks it.
  ProcessGrid(const Degrees& degrees, std::string_view order, int offset);

  bool operator==(const ProcessGrid&) const = default;

  int size() const { return size_; }
  int offset() const { return offset_; }
  int degree(Axis axis) const { return degrees_[static_cast<std::size_t>(axis)]; }
  int stride(Axis axis) const { return strides_[static_cast<std::size_t>(axis)]; }
  bool contains(int rank) const { return rank >= offset_ && rank < offset_ + size_; }
  int coordinate(int rank, Axis axis) const { return (rank - offset_) / stride(axis) % degree(axis); }
  Coordinates coordinates(int rank) const;
  int rank(const Coordinates& coordinates) const;
  // Members of `rank`'s group, ascending along the patterns (the first pattern varies fastest); empty when the
  // rank is in none (a middle stage has no partner among first and last).
  std::vector<int> group(int rank, const std::vector<AxisPattern>& patterns) const;
  // The rank's position among the members of its group: 0 for the first, the first pattern varies fastest.
  std::int64_t index_along(int rank, const std::vector<AxisPattern>& patterns) const;
  // "tp0 dp3 pp1": the axes of degree > 1.
  std::string label(int rank) const;

 private:
  std::array<int, axis_count> degrees_;
  std::array<int, axis_count> strides_;
  int size_ = 1;
  int offset_ = 0;
};

}  // namespace meshweave
