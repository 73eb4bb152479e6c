#include "sim/schedule/schedule.h"

#include <catch2/catch.hpp>
#include <string>

using namespace meshweave;

namespace {

// "F0 F1 B0 …" with the chunk behind a dot when there are several; exchanges left out.
std::string computations(const std::vector<Action>& actions, bool chunks) {
  std::string out;
  for (const Action& a : actions) {
    if (a.kind == ActionKind::exchange) continue;
    if (!out.empty()) out += ' ';
    out += a.kind == ActionKind::forward ? 'F' : a.kind == ActionKind::backward ? 'B' : 'W';
    out += std::to_string(a.micro_batch);
    if (chunks) out += '.' + std::to_string(a.chunk);
  }
  return out;
}

std::string transfers(const Action& action) {
  std::string out;
  for (const PipelineTransfer& t : action.transfers) {
    out += std::string(t.send ? "send" : "receive") + (t.backward ? " backward " : " forward ") +
           std::to_string(t.micro_batch) + ";";
  }
  return out;
}

}  // namespace

TEST_CASE("1F1B warms up with p − 1 − stage forwards") {
  PipelineShape shape;
  shape.placement = Placement::interleaved(4, 1);
  shape.micro_batches = 5;
  CHECK(computations(one_f_one_b(shape, 0), false) == "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4");
  CHECK(computations(one_f_one_b(shape, 3), false) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
}

TEST_CASE("1F1B warms up with no more than there is") {
  PipelineShape shape;
  shape.placement = Placement::interleaved(4, 1);
  shape.micro_batches = 2;
  CHECK(computations(one_f_one_b(shape, 0), false) == "F0 F1 B0 B1");
}

TEST_CASE("1F1B batches what meets in the steady state") {
  PipelineShape shape;
  shape.placement = Placement::interleaved(3, 1);
  shape.micro_batches = 4;
  const std::vector<Action> actions = one_f_one_b(shape, 1);
  std::vector<std::string> exchanges;
  for (const Action& a : actions) {
    if (a.kind == ActionKind::exchange) exchanges.push_back(transfers(a));
  }
  CHECK(exchanges ==
        std::vector<std::string>{"receive forward 0;", "send forward 0;", "receive forward 1;",
                                 "send forward 1;receive backward 0;", "send backward 0;receive forward 2;",
                                 "send forward 2;receive backward 1;", "send backward 1;receive forward 3;",
                                 "send forward 3;receive backward 2;", "send backward 2;", "receive backward 3;",
                                 "send backward 3;"});
}

TEST_CASE("GPipe runs all forwards, then all backwards") {
  PipelineShape shape;
  shape.placement = Placement::interleaved(2, 1);
  shape.micro_batches = 3;
  CHECK(computations(gpipe(shape, 0), false) == "F0 F1 F2 B0 B1 B2");
}

TEST_CASE("interleaved: groups of p micro-batches per chunk, warm-up 2(p − 1 − stage) + (v − 1)p") {
  PipelineShape shape;
  shape.placement = Placement::interleaved(2, 2);
  shape.micro_batches = 4;
  // Stage 1: warm-up 0 + 2. Forwards in the order 0.0 1.0 0.1 1.1 2.0 3.0 2.1 3.1, backwards with chunks reversed.
  CHECK(computations(one_f_one_b(shape, 1), true) ==
        "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
  // Stage 0: warm-up 2 + 2.
  CHECK(computations(one_f_one_b(shape, 0), true) ==
        "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
}

TEST_CASE("deferred weight gradients stand behind the send") {
  PipelineShape shape;
  shape.placement = Placement::interleaved(2, 1);
  shape.micro_batches = 2;
  shape.defer_weight_gradients = true;
  CHECK(computations(one_f_one_b(shape, 1), false) == "F0 B0 W0 F1 B1 W1");
}

TEST_CASE("forward only: no backward, no gradient exchanged") {
  PipelineShape shape;
  shape.placement = Placement::interleaved(2, 1);
  shape.micro_batches = 2;
  shape.forward_only = true;
  for (const Action& a : one_f_one_b(shape, 0)) {
    CHECK(a.kind != ActionKind::backward);
    for (const PipelineTransfer& t : a.transfers) CHECK_FALSE(t.backward);
  }
}
