#include "sim/layout/process_grid.h"

#include <algorithm>

#include "sim/base/error.h"

namespace meshweave {

namespace {
constexpr std::string_view axis_names[] = {"tp", "ulysses", "cp", "tsp", "ep", "dp", "pp"};
}

std::string_view name_of(Axis axis) { return axis_names[static_cast<std::size_t>(axis)]; }

std::string names_of(AxisMask mask) {
  std::string out;
  for (int a = 0; a < axis_count; ++a) {
    if ((mask >> a & 1) == 0) continue;
    if (!out.empty()) out += '+';
    out += axis_names[a];
  }
  return out.empty() ? "-" : out;
}

ProcessGrid::ProcessGrid(const Degrees& d, std::string_view order, int offset)
    : degrees_{d.tp, d.ulysses, d.cp, d.tsp, d.ep, d.dp, d.pp}, offset_(offset) {
  strides_.fill(0);
  for (std::size_t begin = 0; begin <= order.size();) {
    const std::size_t end = std::min(order.find('-', begin), order.size());
    const std::string_view name = order.substr(begin, end - begin);
    const auto* it = std::find(std::begin(axis_names), std::end(axis_names), name);
    ensure(it != std::end(axis_names), "unknown axis in order");
    const auto axis = static_cast<std::size_t>(it - std::begin(axis_names));
    ensure(strides_[axis] == 0, "axis named twice in order");
    strides_[axis] = size_;
    size_ *= degrees_[axis];
    begin = end + 1;
  }
  for (std::size_t axis = 0; axis < axis_count; ++axis) {
    if (strides_[axis] != 0) continue;
    ensure(degrees_[axis] == 1, "axis of degree > 1 missing in order");
    strides_[axis] = 1;
  }
}

Coordinates ProcessGrid::coordinates(int rank) const {
  Coordinates at{};
  for (int a = 0; a < axis_count; ++a) at[static_cast<std::size_t>(a)] = coordinate(rank, static_cast<Axis>(a));
  return at;
}

int ProcessGrid::rank(const Coordinates& coordinates) const {
  int r = offset_;
  for (std::size_t a = 0; a < axis_count; ++a) r += coordinates[a] * strides_[a];
  return r;
}

std::vector<int> ProcessGrid::group(int rank, const std::vector<AxisPattern>& patterns) const {
  std::vector<int> members{rank};
  for (const AxisPattern& p : patterns) {
    const int c = coordinate(rank, p.axis);
    const int first = c / (p.stride * p.count) * (p.stride * p.count) + c % p.stride;
    if (first + (p.count - 1) * p.stride >= degree(p.axis)) return {};
    std::vector<int> next;
    next.reserve(members.size() * static_cast<std::size_t>(p.count));
    for (int i = 0; i < p.count; ++i) {
      const int shift = (first + i * p.stride - c) * stride(p.axis);
      for (int m : members) next.push_back(m + shift);
    }
    members = std::move(next);
  }
  return members;
}

std::int64_t ProcessGrid::index_along(int rank, const std::vector<AxisPattern>& patterns) const {
  std::int64_t index = 0;
  std::int64_t inner = 1;
  for (const AxisPattern& p : patterns) {
    index += coordinate(rank, p.axis) / p.stride % p.count * inner;
    inner *= p.count;
  }
  return index;
}

std::string ProcessGrid::label(int rank) const {
  std::string out;
  for (int a = 0; a < axis_count; ++a) {
    const auto axis = static_cast<Axis>(a);
    if (degree(axis) == 1) continue;
    if (!out.empty()) out += ' ';
    out += name_of(axis);
    out += std::to_string(coordinate(rank, axis));
  }
  return out;
}

}  // namespace meshweave
