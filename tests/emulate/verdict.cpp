// The verdict: matches, rounding that training amplifies, or an op that is wrong.
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/emulate/diagnose.h"
#include "tests/emulate/prepared_program.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;
using testing::DenseOptions;
using testing::PreparedProgram;

namespace {

DenseOptions tiny() {
  DenseOptions o;
  o.tp = o.dp = 2;
  o.micro_batches = 2;
  o.hidden = 16;
  o.heads = o.kv_heads = 4;
  o.ffn = 24;
  o.sequence = 8;
  o.vocabulary = 32;
  return o;
}

EmulationSettings steps(int n) {
  EmulationSettings settings;
  settings.steps = n;
  return settings;
}

}  // namespace

TEST_CASE("Rounding that training amplifies is told from a wrong op") {
  // Steps of size 0.3 throw parameters of size 0.02 about: what differs by rounding grows from step to step.
  Scenario s = testing::dense_scenario(tiny());
  s.optimizer.adam.learning_rate = 0.3;
  const PreparedProgram p(s);
  const EmulationReport two = emulate(p.input(), steps(2));
  CHECK(two.matches);
  CHECK(judge(p.input(), steps(2), two).verdict == EmulationVerdict::matches);
  const EmulationReport report = emulate(p.input(), steps(80));
  CAPTURE(report.loss_error, report.norm_error, report.gradient_error, report.update_error);
  REQUIRE_FALSE(report.matches);
  const EmulationJudgement judgement = judge(p.input(), steps(80), report);
  CHECK(judgement.verdict == EmulationVerdict::rounding);
  REQUIRE(judgement.ops);
  CHECK_FALSE(judgement.ops->wrong);
  CHECK(judgement.ops->largest > 0);
  CHECK(judgement.ops->largest < 1e-9);  // of values that are sums of some hundred terms: rounding of double
  REQUIRE(judgement.two_steps);
  CHECK(judgement.two_steps->update_error == two.update_error);
}

TEST_CASE("An op that is wrong in a late step only is no rounding") {
  // Tokens differ by step and so does the gradient norm: the clip is put between the norm of step k ≥ 2 and those
  // before it, which it leaves alone. A program that never clips is right up to step k − 1.
  Scenario s = testing::dense_scenario(tiny());
  s.optimizer.clip = 1e9;
  const std::vector<double> norm = run_reference(s, 40).norm;
  int k = 2;
  double before = std::max(norm[0], norm[1]);
  while (norm.at(static_cast<std::size_t>(k)) < 1.02 * before)
    before = std::max(before, norm[static_cast<std::size_t>(k++)]);
  s.optimizer.clip = std::sqrt(before * norm[static_cast<std::size_t>(k)]);
  PreparedProgram p(s);
  for (OpSpec& spec : p.program.op_specs) {
    if (spec.kind == OpKind::clip) spec.attributes.limit = 1e9;
  }
  CAPTURE(k, norm);
  CHECK(emulate(p.input(), steps(k)).matches);
  const EmulationReport report = emulate(p.input(), steps(k + 1));
  REQUIRE_FALSE(report.matches);
  const EmulationJudgement judgement = judge(p.input(), steps(k + 1), report);
  CHECK(judgement.verdict == EmulationVerdict::differs);
  REQUIRE(judgement.ops->wrong);
  CAPTURE(judgement.ops->wrong->text);
  CHECK(judgement.ops->wrong->step == k);
  CHECK(judgement.ops->wrong->text.find("clip \"clip gradients\"") != std::string::npos);
}

TEST_CASE("What two steps show already is no rounding, though no op can be named") {
  PreparedProgram p(testing::dense_scenario(tiny()));
  for (TensorSpec& spec : p.program.tensor_specs) {
    if (spec.content == Content::squared_norm) spec.content = Content::other;  // the norm is never made
  }
  for (const int n : {2, 5}) {
    const EmulationReport report = emulate(p.input(), steps(n));
    REQUIRE_FALSE(report.matches);
    const EmulationJudgement judgement = judge(p.input(), steps(n), report);
    CHECK(judgement.verdict == EmulationVerdict::differs);
    CHECK_FALSE(judgement.ops->wrong);
    CHECK(judgement.two_steps.has_value() == (n > 2));
  }
}

TEST_CASE("Updates are judged where the learning rate moves parameters by more than their last digits") {
  // The last digit of 1 is 2^-52 = 2.2e-16, a relative error of 1e-10 in a change of 2.2e-6.
  const auto judged = [](double rate) {
    Scenario s = testing::dense_scenario(tiny());
    s.optimizer.adam.learning_rate = rate;
    const PreparedProgram p(s);
    const EmulationReport r = emulate(p.input(), steps(2));
    CAPTURE(rate, r.gradient_error, r.update_error);
    CHECK(r.matches);
    CHECK(r.updates_shown == r.updates_judged);
    return r.updates_judged;
  };
  CHECK(judged(1e-3));
  CHECK(judged(1e-5));
  CHECK_FALSE(judged(1e-9));
  CHECK_FALSE(judged(1e-13));
  CHECK_FALSE(judged(0));
}
