#include "sim/program/communicators.h"

namespace meshweave {
namespace {

// Ranks that a member of an instance stands behind its first member: the same for every instance of a group.
// The first pattern varies fastest.
std::vector<int> member_offsets(const ProcessGrid& grid, const std::vector<AxisPattern>& patterns) {
  std::vector<int> offsets{0};
  for (const AxisPattern& pattern : patterns) {
    const int step = pattern.stride * grid.stride(pattern.axis);
    const std::size_t inner = offsets.size();
    for (int i = 1; i < pattern.count; ++i) {
      for (std::size_t j = 0; j < inner; ++j) offsets.push_back(offsets[j] + i * step);
    }
  }
  return offsets;
}

// Whether `rank` is the first member of an instance whose members all exist.
bool leads_instance(const ProcessGrid& grid, const std::vector<AxisPattern>& patterns, int rank) {
  for (const AxisPattern& pattern : patterns) {
    const int coordinate = grid.coordinate(rank, pattern.axis);
    if (coordinate / pattern.stride % pattern.count != 0) return false;
    if (coordinate + (pattern.count - 1) * pattern.stride >= grid.degree(pattern.axis)) return false;
  }
  return true;
}

Communicators::Of instances_of(const Group& group, const ProcessGrid& grid, int ranks) {
  Communicators::Of result;
  result.instance_of.assign(static_cast<std::size_t>(ranks), UINT32_MAX);
  result.first.push_back(0);
  const std::vector<int> offsets = member_offsets(grid, group.patterns);
  for (int rank = grid.offset(); rank < grid.offset() + grid.size(); ++rank) {
    if (!leads_instance(grid, group.patterns, rank)) continue;
    const auto instance = static_cast<std::uint32_t>(result.instances());
    for (const int offset : offsets) {
      result.members.push_back(rank + offset);
      result.instance_of[static_cast<std::size_t>(rank + offset)] = instance;
    }
    result.first.push_back(static_cast<std::uint32_t>(result.members.size()));
  }
  return result;
}

}  // namespace

Communicators make_communicators(const Program& program) {
  Communicators result;
  result.by_group.reserve(program.groups.size());
  for (const Group& group : program.groups) {
    result.by_group.push_back(instances_of(group, program.grids[group.grid], program.ranks()));
  }
  return result;
}

}  // namespace meshweave
