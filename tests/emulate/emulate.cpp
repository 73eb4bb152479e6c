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

EmulationReport run(const DenseOptions& options, InterpretOrder order = InterpretOrder::issue,
                    std::uint64_t seed = 0) {
  const PreparedProgram p(testing::dense_scenario(options));
  EmulationSettings settings;
  settings.interpreter.order = order;
  settings.interpreter.seed = seed;
  return emulate(p.input(), settings);
}

void check(const DenseOptions& options) {
  for (const InterpretOrder order :
       {InterpretOrder::issue, InterpretOrder::random, InterpretOrder::priorities}) {
    const EmulationReport r = run(options, order, 7);
    CAPTURE(static_cast<int>(order), r.loss, r.reference_loss, r.loss_error, r.gradient_error, r.update_error,
            r.stuck);
    CHECK(r.matches);
  }
}

}  // namespace

TEST_CASE("One rank computes what the reference computes") {
  check(tiny());
}

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
