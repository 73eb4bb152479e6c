// Where the rows of a tensor stand in the whole, by hand.
#include "sim/program/geometry.h"

#include <catch2/catch.hpp>

#include "sim/program/builder.h"

using namespace meshweave;

namespace {

// One body of all ranks of a grid, to which tensors of any dimensions are added.
struct OneBody {
  ProgramBuilder builder;

  OneBody(const Degrees& degrees, std::string_view order) {
    builder.program().grids.emplace_back(degrees, order, 0);
    builder.add_body("one");
  }

  // A view of `part` at `offset` bytes in a storage of `whole` bytes.
  std::uint32_t view(std::vector<Dimension> dimensions, std::int64_t whole, std::int64_t offset, int runs) {
    Body& body = builder.program().bodies[0];
    TensorSpec spec;
    spec.name = "t";
    spec.rank = static_cast<std::uint8_t>(dimensions.size());
    std::copy(dimensions.begin(), dimensions.end(), spec.dimensions.begin());
    spec.dtype = DType::uint8;
    spec.runs = static_cast<std::uint32_t>(runs);
    const std::uint32_t storage = builder.storage(body, whole, Category::activations, false);
    return builder.view(body, builder.tensor_spec(spec), storage, offset, {});
  }

  std::vector<std::int64_t> rows(int rank, std::uint32_t tensor) {
    const Program& program = builder.program();
    const Geometry at = geometry_of(program, program.bodies[0], rank, tensor);
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < at.spec->dimensions[0].size; ++i) all.push_back(at.whole_row(i));
    return all;
  }
};

using Rows = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("In zigzag order part p holds segments p and 2n - 1 - p") {
  OneBody b({.cp = 2}, "cp");
  const std::uint32_t part = b.view({{4, mask_of(Axis::cp), {}, 2}}, 4, 0, 1);
  // A sequence of 8 in 4 segments of 2.
  CHECK(b.rows(0, part) == Rows{0, 1, 6, 7});
  CHECK(b.rows(1, part) == Rows{2, 3, 4, 5});
  const std::uint32_t gathered = b.view({{8, 0, {}, 2}}, 8, 0, 1);
  CHECK(b.rows(1, gathered) == Rows{0, 1, 6, 7, 2, 3, 4, 5});
}

TEST_CASE("Sequence parallelism splits a part of the zigzag order, tp is the minor axis") {
  OneBody b({.tp = 2, .cp = 2}, "tp-cp");
  const std::uint32_t share =
      b.view({{2, static_cast<AxisMask>(mask_of(Axis::cp) | mask_of(Axis::tp)), {}, 2}}, 2, 0, 1);
  CHECK(b.rows(0, share) == Rows{0, 1});  // cp 0, tp 0
  CHECK(b.rows(1, share) == Rows{6, 7});
  CHECK(b.rows(2, share) == Rows{2, 3});
  CHECK(b.rows(3, share) == Rows{4, 5});
}

TEST_CASE("A piece that is gathered over tp stays in the part of its context-parallel rank") {
  // 16 rows over cp 2, in order: rank 1 of cp has 8 to 15, and each rank of tp a half; piece 1 of 2 has the second
  // half of each half.
  OneBody b({.tp = 2, .cp = 2}, "tp-cp");
  const std::uint32_t piece = b.view({{4, mask_of(Axis::cp)}}, 8, 4, 2);
  CHECK(b.rows(0, piece) == Rows{2, 3, 6, 7});
  CHECK(b.rows(2, piece) == Rows{10, 11, 14, 15});
  // In zigzag order cp 1 holds rows 4 to 11.
  const std::uint32_t zigzag = b.view({{4, mask_of(Axis::cp), {}, 2}}, 8, 4, 2);
  CHECK(b.rows(2, zigzag) == Rows{6, 7, 10, 11});
}

TEST_CASE("A visitor is the part of another rank") {
  OneBody b({.tsp = 4}, "tsp");
  const AxisMask tsp = mask_of(Axis::tsp);
  const std::uint32_t of_owner_2 = b.view({{2, tsp, part_of_owner(2)}}, 2, 0, 1);
  const std::uint32_t one_hop_on = b.view({{2, tsp, part_after_hops(1)}}, 2, 0, 1);
  const std::uint32_t own = b.view({{2, tsp, part_after_hops(0)}}, 2, 0, 1);
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(b.rows(rank, of_owner_2) == Rows{4, 5});
    const std::int64_t before = 2 * ((rank + 3) % 4);
    CHECK(b.rows(rank, one_hop_on) == Rows{before, before + 1});
    CHECK(b.rows(rank, own) == Rows{2 * rank, 2 * rank + 1});
  }
}

TEST_CASE("Heads that are exchanged within tp's share are tp-major") {
  // 8 heads over tp 2 and ulysses 2: tp 0 has heads 0 to 3, of which ulysses 1 has 2 and 3.
  OneBody b({.tp = 2, .ulysses = 2}, "tp-ulysses");
  const auto both = static_cast<AxisMask>(mask_of(Axis::tp) | mask_of(Axis::ulysses));
  const std::uint32_t heads = b.view({{4, 0}, {1, 0}, {2, both}}, 8, 0, 1);
  const auto first_head = [&](int rank) {
    return geometry_of(b.builder.program(), b.builder.program().bodies[0], rank, heads).start[2];
  };
  CHECK(first_head(0) == 0);
  CHECK(first_head(1) == 4);  // tp 1, ulysses 0
  CHECK(first_head(2) == 2);  // tp 0, ulysses 1
  CHECK(first_head(3) == 6);
}
