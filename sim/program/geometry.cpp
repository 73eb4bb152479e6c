#include "sim/program/geometry.h"

namespace meshweave {

namespace {

// A rank's index along several axes, and their common length; the axis of the higher number is the major one,
// except that tensor parallelism is minor to all.
std::pair<std::int64_t, std::int64_t> index_along(const ProcessGrid& grid, int rank, AxisMask axes) {
  std::int64_t index = 0;
  std::int64_t length = 1;
  for (int a = axis_count - 1; a >= 0; --a) {
    const Axis axis = static_cast<Axis>(a);
    if ((axes & mask_of(axis)) == 0) continue;
    index = index * grid.degree(axis) + grid.coordinate(rank, axis);
    length *= grid.degree(axis);
  }
  return {index, length};
}

}  // namespace

std::int64_t Geometry::whole_row(std::int64_t row) const {
  if (spec->pieces > 1) return start[0] + row / run_rows() * run_stride() + row % run_rows();
  if (spec->packed[0] == 0) return start[0] + row;
  const std::int64_t shard = start[0] / spec->dimensions[0].size;
  std::int64_t before = 0;  // rows of the parts before, in the whole
  for (const std::int64_t part : spec->packed) {
    if (row < part) return before + shard * part + row;
    row -= part;
    before += part * shards;
  }
  return before + row;
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
  const ProcessGrid& grid = program.grids[g.spec->module];
  g.offset = t.offset;
  if (t.offset_axes != 0) {
    // Of an optimizer instance's shards there are fewer than the axis is long: the storage bounds them.
    const auto [first, last] = program.byte_range(body, tensor);
    g.offset +=
        index_along(grid, rank, t.offset_axes).first % ((last - first) / g.spec->bytes()) * g.spec->bytes();
  }
  for (std::size_t d = 0; d < g.spec->rank; ++d) {
    const Dimension& dimension = g.spec->dimensions[d];
    const auto [index, length] = index_along(grid, rank, dimension.sharded_over);
    g.start[d] = index * dimension.size;
    g.whole[d] = length * dimension.size;
    if (d == 0) g.shards = static_cast<int>(length);
  }
  if (g.spec->pieces > 1) {
    // A chunk of a transient tensor that begins with its storage; its place counts in chunks.
    const std::int64_t chunk_bytes = g.spec->bytes();
    g.whole[0] = g.spec->dimensions[0].size * (body.storages[t.storage].bytes / chunk_bytes);
    g.start[0] = t.offset / chunk_bytes * g.run_rows();
  } else if (!body.storages[t.storage].persistent && body.storages[t.storage].bytes > g.spec->bytes()) {
    // A chunk of a sequence share.
    const std::int64_t rows = g.spec->dimensions[0].size;
    const std::int64_t row_bytes = g.spec->bytes() / rows;
    const std::int64_t share = body.storages[t.storage].bytes / row_bytes;
    g.start[0] = g.start[0] / rows * share + t.offset / row_bytes;
    g.whole[0] = g.shards * share;
  }
  return g;
}

}  // namespace meshweave
