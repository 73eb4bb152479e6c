#include "sim/program/geometry.h"

#include "sim/base/error.h"

namespace meshweave {

namespace {

// A rank's index along several axes, and their common length.
std::pair<std::int64_t, std::int64_t> index_along(const ProcessGrid& grid, int rank, AxisMask axes, bool tp_is_major) {
  std::int64_t index = 0;
  std::int64_t length = 1;
  const auto add = [&](Axis axis) {
    if ((axes & mask_of(axis)) == 0) return;
    index = index * grid.degree(axis) + grid.coordinate(rank, axis);
    length *= grid.degree(axis);
  };
  if (tp_is_major) add(Axis::tp);
  for (int a = axis_count - 1; a > 0; --a) add(static_cast<Axis>(a));
  if (!tp_is_major) add(Axis::tp);
  return {index, length};
}

// The index of the part that a rank of index `own` among `length` holds.
std::int64_t index_of(HeldPart held, std::int64_t own, std::int64_t length) {
  switch (held.of) {
    case HeldPart::Of::rank: return own;
    case HeldPart::Of::owner: return held.index;
    case HeldPart::Of::ring: return (own - held.index + length) % length;
  }
  bug("unknown part");
}

// The row of the sequence that row `row` of the zigzag order over `parts` parts is.
std::int64_t zigzag_row(std::int64_t row, std::int64_t rows, std::int64_t parts) {
  const std::int64_t segment = rows / (2 * parts);
  const std::int64_t part = row / (2 * segment);
  const std::int64_t within = row % (2 * segment);
  return within < segment ? part * segment + within : (2 * parts - 1 - part) * segment + within - segment;
}

}  // namespace

std::int64_t Geometry::whole_row(std::int64_t row) const {
  if (spec->packed[0] != 0) {
    const std::int64_t shard = start[0] / spec->dimensions[0].size;
    std::int64_t before = 0;  // rows of the parts before, in the whole
    for (const std::int64_t part : spec->packed) {
      if (row < part) return before + shard * part + row;
      row -= part;
      before += part * shards;
    }
    return before + row;
  }
  const std::int64_t stored =
      spec->runs > 1 ? start[0] + row / run_rows() * run_stride + row % run_rows() : start[0] + row;
  const std::int64_t parts = spec->dimensions[0].zigzag;
  return parts > 1 ? zigzag_row(stored, whole[0], parts) : stored;
}

std::int64_t Geometry::whole_index(std::int64_t element) const {
  std::int64_t index = 0;
  std::int64_t factor = 1;
  for (std::size_t d = spec->rank; d-- > 1;) {
    index += (start[d] + element % spec->dimensions[d].size) * factor;
    factor *= whole[d];
    element /= spec->dimensions[d].size;
  }
  return whole_row(element) * factor + index;
}

Geometry geometry_of(const Program& program, const Body& body, int rank, std::uint32_t tensor) {
  const Tensor& t = body.tensors[tensor];
  Geometry g;
  g.spec = &program.tensor_specs[t.spec];
  const ProcessGrid& grid = program.grids[g.spec->grid];
  g.offset = t.offset;
  if (t.shard != no_shard) {
    const ShardPattern& shard = program.shards[t.shard];
    g.offset += program.grids[shard.grid].index_along(rank, shard.patterns) * g.spec->bytes();
  }
  for (std::size_t d = 0; d < g.spec->rank; ++d) {
    const Dimension& dimension = g.spec->dimensions[d];
    const auto [own, length] = index_along(grid, rank, dimension.sharded_over, d > 0);
    const std::int64_t index = index_of(dimension.held, own, length);
    g.start[d] = index * dimension.size;
    g.whole[d] = length * dimension.size;
    if (d == 0) g.shards = static_cast<int>(length);
  }
  // A piece of a transient tensor that begins with its storage, which holds the rank's part; its place counts in
  // pieces.
  const Storage& storage = body.storages[t.storage];
  if (g.spec->runs > 1) {
    const std::int64_t rows = g.spec->dimensions[0].size;
    const std::int64_t piece_bytes = g.spec->bytes();
    const std::int64_t part = rows * (storage.bytes / piece_bytes);
    g.first_row = t.offset / piece_bytes * g.run_rows();
    g.run_stride = part / g.spec->runs;
    g.start[0] = g.start[0] / rows * part + g.first_row;
    g.whole[0] = g.shards * part;
  } else if (!storage.persistent && storage.bytes > g.spec->bytes()) {
    const std::int64_t rows = g.spec->dimensions[0].size;
    const std::int64_t row_bytes = g.spec->bytes() / rows;
    const std::int64_t part = storage.bytes / row_bytes;
    g.start[0] = g.start[0] / rows * part + t.offset / row_bytes;
    g.whole[0] = g.shards * part;
  }
  return g;
}

}  // namespace meshweave
