#include "sim/program/waits.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/program/order_oracle.h"
#include "tests/program/random_body.h"

namespace meshweave {
namespace {

// A body of one-byte tensors on the streams compute, tensor and data.
struct Tiny {
  ProgramBuilder builder;
  std::uint8_t tensor = 0;
  std::uint8_t data = 0;
  Body* body = nullptr;

  Tiny() {
    builder.program().grids.emplace_back(Degrees{}, "tp", 0);
    body = &builder.add_body("tiny");
    tensor = builder.stream(StreamKind::tensor);
    data = builder.stream(StreamKind::data);
  }
  std::uint32_t transient() { return builder.transient(*body, test::byte_spec(builder, 1), Category::activations, {}); }
  std::uint32_t persistent(std::int64_t bytes) {
    const std::uint32_t storage = builder.storage(*body, bytes, Category::main_gradients, true);
    return builder.view(*body, test::byte_spec(builder, bytes), storage, 0, {});
  }
  std::uint32_t part(std::uint32_t whole, std::int64_t offset, std::int64_t bytes) {
    return builder.view(*body, test::byte_spec(builder, bytes), body->tensors[whole].storage, offset, {});
  }
  void op(std::uint8_t stream, std::vector<std::uint32_t> reads, std::vector<std::uint32_t> writes) {
    OpSpec spec;
    spec.stream = stream;
    builder.append(*body, spec, reads, writes, {});
  }
  Waits waits() const { return derive_waits(builder.program(), *body); }
};

// "2 1'": this step's op 2, and op 1 of the step before.
std::string text(const Waits& waits, std::size_t op) {
  std::string out;
  for (const Wait& w : waits.of(op)) {
    if (!out.empty()) out += ' ';
    out += std::to_string(w.op) + (w.previous_step ? "'" : "");
  }
  return out;
}

TEST_CASE("a compute op waits only for what touches its bytes on other streams") {
  Tiny tiny;
  const std::uint32_t x = tiny.transient(), y = tiny.transient(), z = tiny.transient();
  tiny.op(0, {}, {x});             // 0
  tiny.op(tiny.tensor, {x}, {y});  // 1 reads what 0 wrote
  tiny.op(0, {x}, {z});            // 2 reads x beside the reader 1: no hazard
  tiny.op(0, {y}, {});             // 3 reads what 1 wrote
  const Waits waits = tiny.waits();
  CHECK(text(waits, 1) == "0");
  CHECK(text(waits, 2) == "");
  CHECK(text(waits, 3) == "1");
}

TEST_CASE("an op off the compute stream waits for all compute issued before it") {
  Tiny tiny;
  const std::uint32_t x = tiny.transient(), y = tiny.transient();
  tiny.op(0, {}, {x});            // 0
  tiny.op(tiny.tensor, {}, {y});  // 1 has no operand in common with 0
  // Op 1 is ordered after op 0; op 0 of the next step is not ordered after op 1: transient storages are new.
  CHECK(text(tiny.waits(), 1) == "0");
  CHECK(text(tiny.waits(), 0) == "");
}

TEST_CASE("a wait that another one implies is left out") {
  Tiny tiny;
  const std::uint32_t x = tiny.transient(), y = tiny.transient(), z = tiny.transient();
  tiny.op(tiny.tensor, {}, {x});  // 0 waits for the compute issued before it, in the step before
  tiny.op(tiny.data, {x}, {y});   // 1 waits for 0, which has waited for that compute
  tiny.op(0, {x, y}, {z});        // 2 needs 0 and 1; 1 has waited for 0
  tiny.op(0, {y}, {});            // 3 follows 2
  const Waits waits = tiny.waits();
  CHECK(text(waits, 0) == "3'");
  CHECK(text(waits, 1) == "0");
  CHECK(text(waits, 2) == "1");
  CHECK(text(waits, 3) == "");
}

TEST_CASE("persistent storages carry hazards over the step border, byte range by byte range") {
  Tiny tiny;
  const std::uint32_t parameters = tiny.persistent(8);
  const std::uint32_t low = tiny.part(parameters, 0, 4), high = tiny.part(parameters, 4, 4);
  tiny.op(0, {low}, {});           // 0 reads what 2 gathered at the end of the step before
  tiny.op(0, {high}, {});          // 1 reads what 3 gathered
  tiny.op(tiny.data, {}, {low});   // 2 waits for 0 through the compute issued before it
  tiny.op(tiny.data, {}, {high});  // 3
  const Waits waits = tiny.waits();
  CHECK(text(waits, 0) == "2'");
  CHECK(text(waits, 1) == "3'");
  CHECK(text(waits, 2) == "1");
  CHECK(text(waits, 3) == "");
}

TEST_CASE("the clock counts the ops of this step that have ended when an op starts") {
  Tiny tiny;
  const std::uint32_t x = tiny.transient(), y = tiny.transient();
  tiny.op(0, {}, {x});             // 0
  tiny.op(tiny.tensor, {x}, {y});  // 1
  tiny.op(0, {y}, {});             // 2: op 0 (1 + 0) has ended on compute, op 1 (1 + 1) on tensor, none on data
  const Waits waits = tiny.waits();
  REQUIRE(waits.streams == 3);
  CHECK(std::vector<std::uint32_t>(waits.clock.begin() + 6, waits.clock.end()) == std::vector<std::uint32_t>{1, 2, 0});
}

TEST_CASE("a body without ops has no waits") {
  Tiny tiny;
  const Waits waits = tiny.waits();
  CHECK(waits.first == std::vector<std::uint32_t>{0});
  CHECK(waits.clock.empty());
}

TEST_CASE("waits and clocks equal the quadratic oracle on random bodies") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    const Program program = test::random_body(seed);
    const Body& body = program.bodies[0];
    const std::size_t ops = body.ops.size();
    const test::OrderOracle oracle(program, body);
    const Waits waits = derive_waits(program, body);
    for (std::size_t op = 0; op < ops; ++op) {
      INFO("op " << op);
      std::vector<std::size_t> derived;
      for (const Wait& w : waits.of(op)) derived.push_back(w.previous_step ? w.op : ops + w.op);
      std::vector<std::size_t> expected = oracle.waits_of(op);
      std::sort(derived.begin(), derived.end());
      std::sort(expected.begin(), expected.end());
      REQUIRE(derived == expected);
      for (std::size_t s = 0; s < program.streams.size(); ++s) {
        std::uint32_t latest = 0;
        for (std::size_t e = 0; e < op; ++e) {
          if (oracle.stream(e) == s && oracle.ordered(ops + op, ops + e)) latest = static_cast<std::uint32_t>(e) + 1;
        }
        REQUIRE(waits.clock[op * waits.streams + s] == latest);
      }
    }
  }
}

TEST_CASE("the waits order every hazard, and none of them can be spared") {
  int planted = 0;
  for (unsigned seed = 1000; seed < 1100; ++seed) {
    INFO("seed " << seed);
    const Program program = test::random_body(seed);
    const test::OrderOracle oracle(program, program.bodies[0]);
    const Waits waits = derive_waits(program, program.bodies[0]);
    REQUIRE(oracle.enforced_by(waits));
    for (std::size_t missing = 0; missing < waits.waits.size() && planted < 500; ++missing, ++planted) {
      Waits fewer = waits;
      fewer.waits.erase(fewer.waits.begin() + static_cast<std::ptrdiff_t>(missing));
      for (std::uint32_t& first : fewer.first) first -= first > missing ? 1 : 0;
      REQUIRE_FALSE(oracle.enforced_by(fewer));
    }
  }
  CHECK(planted == 500);
}

}  // namespace
}  // namespace meshweave
