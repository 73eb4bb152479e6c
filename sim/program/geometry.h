// Where a tensor lies on one rank: its bytes in the rank's storage, and which part of the whole tensor it is.
//
// A rank's part begins at its index along the axes that shard a dimension, times the local extent; a visitor
// (HeldPart) has the index of another rank. Three kinds of tensors have rows (dimension 0) that do not
// follow each other in the whole:
//   packed     weight of q, k, v rows over 2 ranks, packed {4, 2, 2}: rank 1 holds rows 4-7, 10-11 and 14-15 of 16
//   runs       piece 1 of 2 of a sequence of 8 gathered from 2 ranks: rows 2-3 and 6-7
//   zigzag     a sequence of 8 over 2 ranks: rank 0 holds rows 0-1 and 6-7, rank 1 rows 2-3 and 4-5
#pragma once

#include "sim/program/program.h"

namespace meshweave {

struct Geometry {
  const TensorSpec* spec = nullptr;
  std::int64_t offset = 0;                           // bytes into the storage, of the first element
  std::array<std::int64_t, max_dimensions> start{};  // index of the first element in the whole, per dimension
  std::array<std::int64_t, max_dimensions> whole{};  // extent of the whole, per dimension
  int shards = 1;                                    // of dimension 0
  // A piece has TensorSpec::runs runs of rows, evenly apart: its first row in the storage, and their distance.
  std::int64_t first_row = 0;
  std::int64_t run_stride = 0;

  std::int64_t run_rows() const { return spec->dimensions[0].size / spec->runs; }
  // The row of the whole tensor that local row `row` is.
  std::int64_t whole_row(std::int64_t row) const;
  // The index in the whole tensor, row-major, that local element `element` has.
  std::int64_t whole_index(std::int64_t element) const;
};

Geometry geometry_of(const Program& program, const Body& body, int rank, std::uint32_t tensor);

}  // namespace meshweave
