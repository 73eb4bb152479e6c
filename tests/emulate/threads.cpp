// The number of threads changes nothing but the time that a run takes.
#include <catch2/catch.hpp>

#include "tests/emulate/prepared_program.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;
using testing::PreparedProgram;

namespace {

EmulationReport run(const PreparedProgram& p, InterpretOrder order, int threads) {
  EmulationSettings settings;
  settings.interpreter.order = order;
  settings.interpreter.seed = 7;
  settings.interpreter.threads = threads;
  return emulate(p.input(), settings);
}

std::vector<std::uint32_t> rounds_of(const EmulationReport& report) {
  std::vector<std::uint32_t> all;
  for (const std::vector<OpRounds>& rank : report.run.rounds) {
    for (const OpRounds& op : rank) all.insert(all.end(), {op.launched, op.matched, op.ended});
  }
  return all;
}

}  // namespace

TEST_CASE("Results do not depend on the number of threads") {
  testing::DenseOptions o;
  o.hidden = 16;
  o.heads = o.kv_heads = 4;
  o.ffn = 24;
  o.sequence = 8;
  o.vocabulary = 30;
  o.tp = o.pp = o.dp = 2;
  o.micro_batches = 3;
  o.zero = 1;
  const PreparedProgram program(testing::dense_scenario(o));
  for (const InterpretOrder order : {InterpretOrder::issue, InterpretOrder::random, InterpretOrder::priorities}) {
    const EmulationReport alone = run(program, order, 1);
    CHECK(alone.matches);
    // Fewer threads than the eight ranks, as many, and more.
    for (const int threads : {2, 3, 8, 20}) {
      CAPTURE(static_cast<int>(order), threads);
      const EmulationReport together = run(program, order, threads);
      CHECK(together.loss == alone.loss);
      CHECK(together.gradient_error == alone.gradient_error);
      CHECK(together.update_error == alone.update_error);
      CHECK(rounds_of(together) == rounds_of(alone));
    }
  }
}
