// Faults planted in lowered programs are found, and the right op is named.
#include <catch2/catch.hpp>

#include "sim/emulate/diagnose.h"
#include "tests/emulate/prepared_program.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;
using testing::DenseOptions;
using testing::PreparedProgram;

namespace {

DenseOptions tiny() {
  DenseOptions o;
  o.tp = o.pp = o.dp = 2;
  o.micro_batches = 4;
  o.hidden = 16;
  o.heads = o.kv_heads = 4;
  o.ffn = 24;
  o.sequence = 8;
  o.vocabulary = 32;
  return o;
}

// The index of the n-th op of a body with this label, kind and phase.
std::size_t op_index(const Program& program, const Body& body, OpKind kind, const std::string& label, Phase phase,
                     int n = 0) {
  for (std::size_t i = 0; i < body.ops.size(); ++i) {
    const OpSpec& spec = program.spec(body.ops[i]);
    if (spec.kind == kind && spec.label == label && spec.phase == phase && n-- == 0) return i;
  }
  FAIL("no op " << label);
  return 0;
}

void erase_op(Body& body, std::size_t op) { body.ops.erase(body.ops.begin() + static_cast<std::ptrdiff_t>(op)); }

std::string diagnosis(PreparedProgram& p, const EmulationSettings& settings = {}) {
  CHECK_FALSE(emulate(p.input(), settings).matches);
  const std::optional<WrongOp> wrong = first_wrong_op(p.input(), settings);
  return wrong ? wrong->text : "nothing";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("A program without fault has no wrong op") {
  for (const bool sequence_parallel : {false, true}) {
    DenseOptions o = tiny();
    o.sequence_parallel = sequence_parallel;
    o.zero = sequence_parallel;
    o.tp_chunks = sequence_parallel ? 2 : 0;
    o.dropout = 0.1;
    o.recompute = sequence_parallel ? Recompute::full : Recompute::selective;
    o.fused_attention = sequence_parallel;
    o.activation = sequence_parallel ? Activation::swiglu : Activation::gelu;
    o.position = sequence_parallel ? Position::rope : Position::learned;
    const PreparedProgram p(testing::dense_scenario(o));
    const std::optional<WrongOp> wrong = first_wrong_op(p.input(), {});
    CHECK((wrong ? wrong->text : "") == "");
  }
}

TEST_CASE("A missing all-reduce shows in the op that adds what it should have summed") {
  PreparedProgram p(testing::dense_scenario(tiny()));
  for (Body& body : p.program.bodies) {
    erase_op(body, op_index(p.program, body, OpKind::all_reduce, "projection all-reduce", Phase::forward, 1));
  }
  p.derive();
  const std::string found = diagnosis(p);
  CAPTURE(found);
  CHECK(contains(found, "residual-add \"attention residual\", forward, module language, layer 0, micro-batch 1"));
}

TEST_CASE("A wrong shard shows in the optimizer's step") {
  DenseOptions o = tiny();
  o.zero = 1;
  PreparedProgram p(testing::dense_scenario(o));
  // Every replica's Adam writes the first shard.
  Body& body = p.program.bodies[0];
  const Op& adam = body.ops[op_index(p.program, body, OpKind::adam, "adam", Phase::optimizer)];
  std::uint32_t& shard = body.operands[adam.first_operand + p.program.spec(adam).reads.size() + 3];
  Tensor first = body.tensors[shard];
  first.shard = no_shard;
  shard = static_cast<std::uint32_t>(body.tensors.size());
  body.tensors.push_back(first);
  p.derive();
  const std::string found = diagnosis(p);
  CAPTURE(found);
  CHECK(contains(found, "adam \"adam\", optimizer"));
}

TEST_CASE("A swapped micro-batch shows in the stage that receives it") {
  PreparedProgram p(testing::dense_scenario(tiny()));
  // The second stage takes its first two inputs for one another.
  Body& body = p.program.bodies[1];
  std::vector<std::uint32_t*> received;
  for (Op& op : body.ops) {
    if (p.program.spec(op).label.find("receive forward") == std::string::npos) continue;
    for (std::uint16_t m = 0; m < op.message_count; ++m) {
      Message& message = body.messages[op.first_message + m];
      if (!message.send) received.push_back(&message.tensor);
    }
  }
  REQUIRE(received.size() == 4);
  std::swap(*received[0], *received[1]);
  p.derive();
  const std::string found = diagnosis(p);
  CAPTURE(found);
  CHECK(contains(found, "point-to-point"));
  CHECK(contains(found, "receive forward"));
}

TEST_CASE("A doubled gradient shows in the second op that adds it") {
  PreparedProgram p(testing::dense_scenario(tiny()));
  Body& body = p.program.bodies[1];
  const std::size_t wgrad = op_index(p.program, body, OpKind::matmul, "fc1", Phase::backward_weight, 2);
  body.ops.insert(body.ops.begin() + static_cast<std::ptrdiff_t>(wgrad), body.ops[wgrad]);
  p.derive();
  const std::string found = diagnosis(p);
  CAPTURE(found);
  CHECK(contains(found, "op " + std::to_string(wgrad + 1) +
                            ", matmul \"fc1\", backward-weight, module language, layer 1, "
                            "micro-batch 2"));
}

TEST_CASE("A stale buffer shows in the first op that adds to it, a step later") {
  PreparedProgram p(testing::dense_scenario(tiny()));
  Body& body = p.program.bodies[0];
  erase_op(body, op_index(p.program, body, OpKind::fill, "zero gradients", Phase::optimizer));
  p.derive();
  const std::string found = diagnosis(p);
  CAPTURE(found);
  CHECK(contains(found, "backward-weight"));
  CHECK(contains(found, "micro-batch 0, step 1"));
}

TEST_CASE("A missing event shows in some order of the ops") {
  // Without its wait for the all-reduce behind the projection, the residual may run first.
  PreparedProgram p(testing::dense_scenario(tiny()));
  const Body& body = p.program.bodies[0];
  const std::size_t op = op_index(p.program, body, OpKind::residual_add, "attention residual", Phase::forward, 1);
  Waits& waits = p.waits[0];
  REQUIRE(waits.of(op).size() == 1);
  waits.waits.erase(waits.waits.begin() + waits.first[op]);
  for (std::size_t i = op + 1; i < waits.first.size(); ++i) --waits.first[i];
  EmulationSettings settings;
  settings.interpreter.order = InterpretOrder::priorities;
  bool found = false;
  for (settings.interpreter.seed = 0; settings.interpreter.seed < 20 && !found; ++settings.interpreter.seed) {
    if (emulate(p.input(), settings).matches) continue;
    const std::optional<WrongOp> wrong = first_wrong_op(p.input(), settings);
    REQUIRE(wrong);
    CAPTURE(wrong->text);
    CHECK(contains(wrong->text, "layer 0, micro-batch 1"));
    found = true;
  }
  CHECK(found);
}

TEST_CASE("A gradient scaled by the replicas shows in the loss's gradient") {
  PreparedProgram p(testing::dense_scenario(tiny()));
  for (OpSpec& spec : p.program.op_specs) {
    if (spec.kind == OpKind::cross_entropy_backward) spec.attributes.scale *= 2;
  }
  const std::string found = diagnosis(p);
  CAPTURE(found);
  CHECK(contains(found, "cross-entropy-backward \"loss\", backward-data, module language"));
}

TEST_CASE("A parameter that no optimizer step updates is found in the first step") {
  PreparedProgram p(testing::dense_scenario(tiny()));
  for (Body& body : p.program.bodies) {
    erase_op(body, op_index(p.program, body, OpKind::adam, "adam", Phase::optimizer));
  }
  p.derive();
  EmulationSettings settings;
  settings.steps = 1;
  CHECK_FALSE(emulate(p.input(), settings).matches);
}

TEST_CASE("A gradient norm that is never made is found") {
  PreparedProgram p(testing::dense_scenario(tiny()));
  for (TensorSpec& spec : p.program.tensor_specs) {
    if (spec.content == Content::squared_norm) spec.content = Content::other;
  }
  CHECK_FALSE(emulate(p.input(), {}).matches);
}
