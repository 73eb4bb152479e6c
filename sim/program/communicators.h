// The communicators of a program: for each group the instances (member lists) and which one a rank belongs to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/program.h"

namespace meshweave {

struct Communicators {
  struct Of {                                // of one Program::groups entry
    std::vector<std::uint32_t> instance_of;  // by rank; UINT32_MAX for ranks outside the group's grid or pattern
    std::vector<std::uint32_t> first;        // instances + 1 entries into `members`
    std::vector<int> members;
    std::span<const int> of(std::uint32_t instance) const {
      return {members.data() + first[instance], first[instance + 1] - first[instance]};
    }
    std::size_t instances() const { return first.size() - 1; }
  };
  std::vector<Of> by_group;  // as Program::groups
};

Communicators make_communicators(const Program& program);

}  // namespace meshweave
