// Cells: the pieces into which the bounds of its tensors cut each storage of a body.
//
// Two tensors share bytes exactly when they share a cell, and the cells of a tensor follow each other. A
// storage of one tensor is one cell; a bucket of 24 bytes under the views [0, 16), [8, 24) is three: [0, 8),
// [8, 16), [16, 24). A shard whose place depends on the rank covers all places that it may have.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/program.h"

namespace meshweave {

struct Cells {
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t last = 0;  // one behind
  };
  std::vector<Range> of_tensor;
  std::vector<std::uint32_t> storage;  // by cell
  std::size_t count() const { return storage.size(); }
};

Cells cut_storages(const Program& program, const Body& body);

}  // namespace meshweave
