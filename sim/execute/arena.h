// Addresses for the storages of a body in one block of memory, in which bytes are used again when they are
// free.
//
// First fit over the issue order: at each position the storages that die there (sim/program/liveness.h) give
// their place back, then those that are born take the lowest gap that is large enough. A storage that lives
// to the end of the step keeps its place for itself, since the next step may begin before its last reader
// ends.
//
//   op        0  1  2  3
//   a (8)     [-----)        address 0
//   b (4)        [-----)     address 8
//   c (6)           [-----)  address 0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/liveness.h"

namespace meshweave {

struct ArenaPlan {
  std::vector<std::int64_t> address;  // by storage, in the unit of the sizes
  std::int64_t size = 0;
};

// `ops` is the number of ops of the body; `sizes` of storages in any unit.
ArenaPlan plan_arena(std::span<const std::int64_t> sizes, const std::vector<StorageLife>& lives, std::uint32_t ops);

}  // namespace meshweave
