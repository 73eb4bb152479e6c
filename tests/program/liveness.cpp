#include "sim/program/liveness.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/program/order_oracle.h"
#include "tests/program/random_body.h"

namespace meshweave {
namespace {

constexpr std::size_t index_of(Category c) { return static_cast<std::size_t>(c); }

TEST_CASE("a tensor dies when compute is ordered after its last reader") {
  // 0 compute writes x (4 B); 1 tensor reads x, writes y (2 B); 2 compute writes z (1 B); 3 compute reads y;
  // 4 compute reads z. Op 2 is not ordered after 1, op 3 is: x dies at 3. y is read last by 3 and dies at 4,
  // z is read last by 4 and lives to the end. Alive: 4, 6, 7, 3 (x gone), 1 (y gone), with 10 persistent
  // bytes more.
  ProgramBuilder builder;
  builder.program().grids.emplace_back(Degrees{}, "tp", 0);
  const std::uint8_t tensor = builder.stream(StreamKind::tensor);
  Body& body = builder.add_body("body");
  builder.storage(body, 10, Category::parameters, true);
  const auto transient = [&](std::int64_t bytes, Category category) {
    return builder.transient(body, test::byte_spec(builder, bytes), category, {});
  };
  const std::uint32_t x = transient(4, Category::activations);
  const std::uint32_t y = transient(2, Category::communication);
  const std::uint32_t z = transient(1, Category::workspace);
  const auto op = [&](std::uint8_t stream, std::vector<std::uint32_t> reads, std::vector<std::uint32_t> writes) {
    OpSpec spec;
    spec.stream = stream;
    builder.append(body, spec, reads, writes, {});
  };
  op(0, {}, {x});
  op(tensor, {x}, {y});
  op(0, {}, {z});
  op(0, {y}, {});
  op(0, {z}, {});

  const Liveness live = derive_liveness(builder.program(), body, derive_waits(builder.program(), body));
  CHECK(live.persistent[index_of(Category::parameters)] == 10);
  CHECK(live.lives[1].born == 0);
  CHECK(live.lives[1].dies == 3);
  CHECK(live.lives[2].dies == 4);
  CHECK(live.lives[3].dies == 5);
  std::vector<std::pair<std::uint32_t, std::int64_t>> curve;
  for (const Liveness::Change& c : live.curve) {
    curve.emplace_back(c.op, std::accumulate(c.bytes.begin(), c.bytes.end(), std::int64_t{0}));
  }
  CHECK(curve == std::vector<std::pair<std::uint32_t, std::int64_t>>{{0, 14}, {1, 16}, {2, 17}, {3, 13}, {4, 11}});
  CHECK(live.peak_op == 2);
  CHECK(live.peak_bytes == 17);
  CHECK(live.peak == BytesByCategory{10, 0, 0, 4, 0, 2, 1});
}

TEST_CASE("a body without ops holds its persistent storages") {
  ProgramBuilder builder;
  Body& body = builder.add_body("idle");
  builder.storage(body, 10, Category::parameters, true);
  builder.storage(body, 7, Category::activations, false);
  const Liveness live = derive_liveness(builder.program(), body, derive_waits(builder.program(), body));
  REQUIRE(live.curve.size() == 1);
  CHECK(live.peak_bytes == 10);
}

// Alive at `op`, by the definition: born at or before it, and not every touching op ordered before a compute
// op at or before it.
bool alive(const test::OrderOracle& oracle, const Program& program, const Body& body, std::size_t storage,
           std::size_t op) {
  const std::size_t ops = body.ops.size();
  std::vector<std::size_t> touching;
  for (std::size_t i = 0; i < ops; ++i) {
    for (const auto operands : {program.reads(body, body.ops[i]), program.writes(body, body.ops[i])}) {
      for (const std::uint32_t t : operands) {
        if (body.tensors[t].storage == storage) touching.push_back(i);
      }
    }
  }
  if (body.storages[storage].persistent) return true;
  if (touching.empty() || op < touching.front()) return false;
  for (std::size_t compute = touching.back() + 1; compute <= op; ++compute) {
    if (oracle.stream(compute) != 0) continue;
    bool after_all = true;
    for (const std::size_t t : touching) after_all = after_all && oracle.ordered(ops + compute, ops + t);
    if (after_all) return false;
  }
  return true;
}

TEST_CASE("memory over the issue order equals the naive oracle on random bodies") {
  for (unsigned seed = 2000; seed < 2300; ++seed) {
    INFO("seed " << seed);
    const Program program = test::random_body(seed);
    const Body& body = program.bodies[0];
    const test::OrderOracle oracle(program, body);
    const Liveness live = derive_liveness(program, body, derive_waits(program, body));
    std::int64_t peak = 0;
    std::size_t change = 0;
    for (std::size_t op = 0; op < body.ops.size(); ++op) {
      BytesByCategory expected{};
      for (std::size_t s = 0; s < body.storages.size(); ++s) {
        if (alive(oracle, program, body, s, op))
          expected[index_of(body.storages[s].category)] += body.storages[s].bytes;
      }
      if (change + 1 < live.curve.size() && live.curve[change + 1].op == op) ++change;
      REQUIRE(live.curve[change].bytes == expected);
      peak = std::max(peak, std::accumulate(expected.begin(), expected.end(), std::int64_t{0}));
    }
    REQUIRE(change + 1 == live.curve.size());
    REQUIRE(live.peak_bytes == peak);
  }
}

}  // namespace
}  // namespace meshweave
