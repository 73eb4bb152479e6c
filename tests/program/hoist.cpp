// The overlap pass on bodies whose order after it follows by hand.
#include "sim/program/hoist.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/program/hand_made.h"
#include "tests/program/random_body.h"

using namespace meshweave;
using test::HandMade;

namespace {

const std::vector<Dimension> size{{16, 0}};
const std::vector<Dimension> shared{{8, mask_of(Axis::tp)}};

std::uint8_t tensor_stream(const Program& program) {
  std::uint8_t stream = 0;
  while (stream + 1u < program.streams.size() && program.streams[stream].kind != StreamKind::tensor) ++stream;
  return stream;
}

std::vector<std::string> labels(HandMade& p) {
  std::vector<std::string> result;
  for (const Op& op : p.body().ops) result.push_back(p.program().spec(op).label);
  return result;
}

// A compute op that touches nothing that others touch.
void apart(HandMade& p, const std::string& label) { p.op(OpKind::fill, label, {}, {p.transient(p.spec(label, size))}); }

std::uint32_t gather(HandMade& p, const std::string& label, std::uint32_t share) {
  const std::uint32_t whole = p.transient(p.spec(label, size));
  p.collective(OpKind::all_gather, label, p.tp_group, p.tensor_stream, share, whole);
  return whole;
}

std::uint32_t share(HandMade& p, const std::string& label) {
  const std::uint32_t t = p.transient(p.spec(label, shared));
  p.op(OpKind::fill, label, {}, {t});
  return t;
}

}  // namespace

TEST_CASE("a tensor communication moves up behind the op that writes what it reads") {
  HandMade p(2, 1, 1);
  apart(p, "before");
  const std::uint32_t x = share(p, "x");
  apart(p, "a");
  apart(p, "b");
  gather(p, "gather", x);
  hoist_tensor_communication(p.program(), p.body(), tensor_stream(p.program()), 0);
  CHECK(labels(p) == std::vector<std::string>{"before", "x", "gather", "a", "b"});
}

TEST_CASE("it passes as many communications as the depth says, and only with compute above them") {
  // "second" may run beside y's producer while "first" waits for it; that passes one communication.
  const auto build = [](HandMade& p) {
    const std::uint32_t x = share(p, "x");
    const std::uint32_t y = share(p, "y");
    gather(p, "first", y);
    apart(p, "a");
    gather(p, "second", x);
  };
  HandMade in_order(2, 1, 1);
  build(in_order);
  hoist_tensor_communication(in_order.program(), in_order.body(), tensor_stream(in_order.program()), 0);
  CHECK(labels(in_order) == std::vector<std::string>{"x", "y", "first", "second", "a"});
  HandMade passing(2, 1, 1);
  build(passing);
  hoist_tensor_communication(passing.program(), passing.body(), tensor_stream(passing.program()), 1);
  CHECK(labels(passing) == std::vector<std::string>{"x", "second", "y", "first", "a"});
  // Chunks of one gather: the second could stand before the first, but nothing would run beside it there.
  HandMade pieces(2, 1, 1);
  const std::uint32_t x = share(pieces, "x");
  const std::uint32_t y = share(pieces, "y");
  apart(pieces, "a");
  gather(pieces, "piece 0", y);
  apart(pieces, "matmul 0");
  gather(pieces, "piece 1", y);
  apart(pieces, "matmul 1");
  pieces.used(x);
  hoist_tensor_communication(pieces.program(), pieces.body(), tensor_stream(pieces.program()), 3);
  CHECK(labels(pieces) == std::vector<std::string>{"x", "y", "piece 0", "piece 1", "a", "matmul 0", "matmul 1", "use"});
}

TEST_CASE("it passes no pipeline or data communication and no op that holds the host") {
  HandMade p(2, 2, 2);
  const std::uint32_t x = share(p, "x");
  const std::uint32_t gradient = share(p, "gradient");
  p.batch("exchange", {HandMade::send(p.next, 0, gradient)});
  apart(p, "a");
  gather(p, "behind the exchange", x);
  p.collective(OpKind::all_reduce, "data", p.dp_group, p.data_stream, gradient, gradient);
  apart(p, "b");
  gather(p, "behind data", x);
  apart(p, "holds");
  const std::uint32_t held = p.body().ops.back().spec;
  p.program().op_specs[held].sync = true;
  apart(p, "c");
  gather(p, "behind the host", x);
  hoist_tensor_communication(p.program(), p.body(), tensor_stream(p.program()), 9);
  CHECK(labels(p) == std::vector<std::string>{"x", "gradient", "exchange", "behind the exchange", "a", "data",
                                              "behind data", "b", "holds", "behind the host", "c"});
}

TEST_CASE("no two ops that conflict, and none of another stream, change their order") {
  for (unsigned seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    Program program = test::random_body(seed);
    Body& body = program.bodies[0];
    // The order of issue is told by a field that the pass does not read.
    for (std::size_t i = 0; i < body.ops.size(); ++i) body.ops[i].layer = static_cast<std::int16_t>(i);
    const auto touches = [&](std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) {
      return std::any_of(a.begin(), a.end(), [&](std::uint32_t x) {
        return std::any_of(b.begin(), b.end(), [&](std::uint32_t y) {
          const auto [first, last] = program.byte_range(body, x);
          const auto [other_first, other_last] = program.byte_range(body, y);
          return body.tensors[x].storage == body.tensors[y].storage && first < other_last && other_first < last;
        });
      });
    };
    hoist_tensor_communication(program, body, tensor_stream(program), static_cast<int>(seed % 4));
    for (std::size_t i = 0; i < body.ops.size(); ++i) {
      for (std::size_t j = i + 1; j < body.ops.size(); ++j) {
        if (body.ops[i].layer < body.ops[j].layer) continue;  // in the order of issue
        const Op& up = body.ops[i];
        const Op& passed = body.ops[j];
        const StreamKind kind = program.streams[program.spec(passed).stream].kind;
        REQUIRE(program.streams[program.spec(up).stream].kind == StreamKind::tensor);
        REQUIRE((kind == StreamKind::compute || kind == StreamKind::tensor));
        REQUIRE_FALSE(touches(program.writes(body, up), program.writes(body, passed)));
        REQUIRE_FALSE(touches(program.writes(body, up), program.reads(body, passed)));
        REQUIRE_FALSE(touches(program.reads(body, up), program.writes(body, passed)));
      }
    }
  }
}
