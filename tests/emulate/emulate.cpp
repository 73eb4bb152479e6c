// The parallel step computes what the reference computes.
#include "sim/emulate/emulate.h"

#include <catch2/catch.hpp>

#include "tests/emulate/prepared_program.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;
using testing::DenseOptions;
using testing::PreparedProgram;

namespace {

DenseOptions tiny() {
  DenseOptions o;
  o.hidden = 16;
  o.heads = o.kv_heads = 4;
  o.ffn = 24;
  o.sequence = 8;
  o.vocabulary = 30;
  return o;
}

EmulationReport run(const DenseOptions& options, InterpretOrder order = InterpretOrder::issue, std::uint64_t seed = 0) {
  const PreparedProgram p(testing::dense_scenario(options));
  EmulationSettings settings;
  settings.interpreter.order = order;
  settings.interpreter.seed = seed;
  return emulate(p.input(), settings);
}

void check(const DenseOptions& options) {
  for (const InterpretOrder order : {InterpretOrder::issue, InterpretOrder::random, InterpretOrder::priorities}) {
    const EmulationReport r = run(options, order, 7);
    CAPTURE(static_cast<int>(order), r.loss, r.reference_loss, r.loss_error, r.gradient_error, r.update_error, r.stuck);
    CHECK(r.matches);
  }
}

}  // namespace

TEST_CASE("One rank computes what the reference computes") { check(tiny()); }

TEST_CASE("Every axis alone computes what the reference computes") {
  DenseOptions o = tiny();
  o.tp = 2;
  check(o);
  o.sequence_parallel = true;
  check(o);
  o.tp_chunks = 2;
  check(o);
  o = tiny();
  o.pp = 2, o.micro_batches = 3;
  check(o);
  o.vpp = 2, o.micro_batches = 4;
  check(o);
  o = tiny();
  o.dp = 2, o.micro_batches = 2;
  check(o);
  o.zero = 1;
  check(o);
}

TEST_CASE("Over 200 steps the curve of every layout is the reference's") {
  DenseOptions model = tiny();
  model.vocabulary = 32;  // padded to the same rows under tp 1, 2 and 4
  const auto scenario = [&](DenseOptions o) {
    o.micro_batches = 8 / o.dp;
    o.layers_per_stage = 4 / (o.pp * o.vpp);
    Scenario s = testing::dense_scenario(o);
    s.model[0].shape.vocabulary_multiple = 4;
    s.optimizer.adam.learning_rate = 0.01;
    s.optimizer.bucket_parameters = 700;
    return s;
  };
  constexpr int steps = 200;
  const ReferenceRun reference = run_reference(scenario(model), steps);
  CHECK(reference.loss.back() < 0.7 * reference.loss.front());  // it learns
  std::vector<DenseOptions> layouts(8, model);
  layouts[1].tp = 4;
  layouts[2].tp = 2, layouts[2].sequence_parallel = true, layouts[2].tp_chunks = 2;
  layouts[3].pp = 4;
  layouts[4].pp = 2, layouts[4].vpp = 2, layouts[4].recompute = Recompute::full;
  layouts[5].dp = 2, layouts[5].zero = 1;
  layouts[6].dp = 4, layouts[6].zero = 1, layouts[6].optimizer_instances = 2;
  layouts[7].tp = layouts[7].pp = layouts[7].dp = 2, layouts[7].zero = 1, layouts[7].sequence_parallel = true;
  for (const DenseOptions& layout : layouts) {
    const PreparedProgram p(scenario(layout));
    EmulationSettings settings;
    settings.steps = steps;
    const EmulationReport r = emulate(p.input(), settings, reference);
    CAPTURE(layout.tp, layout.pp, layout.dp, r.stuck, r.norm_error);
    CHECK(r.loss_error < 1e-8);
  }
}

TEST_CASE("A forward pass is right however far the first stages run ahead") {
  // Nothing comes back to the first stage, so its compute is held by the memory of what is not sent yet alone.
  DenseOptions o = tiny();
  o.pp = 4, o.micro_batches = 8;
  o.pass = Pass::forward;
  const PreparedProgram p(testing::dense_scenario(o));
  EmulationSettings settings;
  settings.steps = 6;
  for (const InterpretOrder order : {InterpretOrder::issue, InterpretOrder::random, InterpretOrder::priorities}) {
    settings.interpreter.order = order;
    settings.interpreter.seed = 3;
    const EmulationReport r = emulate(p.input(), settings);
    CAPTURE(static_cast<int>(order), r.loss, r.reference_loss, r.stuck);
    CHECK(r.matches);
  }
}

TEST_CASE("Errors are relative to the gradients of all steps: the last one may have none") {
  // One token to predict, and dropout 0.999: Adam goes on moving what has no gradient any more.
  DenseOptions o = tiny();
  o.dropout = 0.999;
  o.hidden = 8;
  o.sequence = 2;
  o.vocabulary = 1;
  for (const int steps : {1, 2, 3, 5, 10}) {
    const PreparedProgram p(testing::dense_scenario(o));
    EmulationSettings settings;
    settings.steps = steps;
    const EmulationReport r = emulate(p.input(), settings);
    CAPTURE(steps, r.loss_error, r.gradient_error, r.update_error);
    CHECK(r.matches);
  }
}
