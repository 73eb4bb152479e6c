// Memory over the issue order: which storages are alive at each position of a body.
//
// A transient storage lives from the issue position of its first writer to the first op on the compute stream that
// is ordered after its last reader or writer (a caching allocator with events), or to the end of the step.
// Persistent storages live always. Positions are issue positions, so every executor shares them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/program/waits.h"

namespace meshweave {

using BytesByCategory = std::array<std::int64_t, category_count>;

struct StorageLife {
  std::uint32_t born = 0;  // op index of the first writer
  std::uint32_t dies = 0;  // op index at whose start the bytes are free; ops.size() at the end of the step
};

struct Liveness {
  std::vector<StorageLife> lives;  // by storage; persistent ones: {0, ops.size()}
  BytesByCategory persistent{};
  struct Change {
    std::uint32_t op = 0;
    BytesByCategory bytes{};  // alive from this op on, persistent storages included
  };
  std::vector<Change> curve;  // ascending ops, the first at op 0
  std::uint32_t peak_op = 0;
  BytesByCategory peak{};  // composition at the peak
  std::int64_t peak_bytes = 0;
};

Liveness derive_liveness(const Program& program, const Body& body, const Waits& waits);

}  // namespace meshweave
