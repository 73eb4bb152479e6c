// A matrix of cases in which every pair of settings occurs that may occur together, each as a training step
// and as a forward pass, in issue order and in random orders, in double and in float; and cases drawn at
// random.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <set>

#include "sim/base/parallel_for.h"
#include "sim/base/random.h"
#include "sim/program/verify.h"
#include "tests/emulate/cases.h"
#include "tests/emulate/prepared_program.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

// Empty, or what went wrong.
std::string fault_of(const Case& c, Pass pass) {
  Scenario scenario = scenario_of(c);
  scenario.pass = pass;
  const PreparedProgram p(scenario);
  if (const std::vector<Violation> broken = verify(p.program); !broken.empty()) return broken.front().text;
  constexpr int steps = 2;
  const ReferenceRun reference = run_reference(p.scenario, steps);
  EmulationSettings settings;
  settings.steps = steps;
  const auto attempt = [&](InterpretOrder order, std::uint64_t seed, EmulationPrecision precision) -> std::string {
    settings.interpreter.order = order;
    settings.interpreter.seed = seed;
    settings.precision = precision;
    const EmulationReport r = emulate(p.input(), settings, reference);
    if (r.matches) return {};
    return fmt::format("loss {:.2g}, gradients {:.2g}, updates {:.2g}, order {} of seed {}, {} {}", r.loss_error,
                       r.gradient_error, r.update_error, static_cast<int>(order), seed, name_of(precision), r.stuck);
  };
  const std::uint64_t seed = mix_bits(stream_key(describe(c)));
  using enum EmulationPrecision;
  std::string fault = attempt(InterpretOrder::issue, 0, double_precision);
  if (fault.empty()) fault = attempt(InterpretOrder::random, seed, double_precision);
  if (fault.empty()) fault = attempt(InterpretOrder::priorities, seed, double_precision);
  if (fault.empty()) fault = attempt(InterpretOrder::issue, 0, single_precision);
  return fault.empty() || pass == Pass::train ? fault : "forward only: " + fault;
}

std::string fault_of(const Case& c) {
  const std::string fault = fault_of(c, Pass::train);
  return fault.empty() ? fault_of(c, Pass::forward) : fault;
}

void check_all(const std::vector<Case>& cases) {
  std::vector<std::string> faults(cases.size());
  parallel_for(cases.size(), thread_count(0), [&](std::size_t i) { faults[i] = fault_of(cases[i]); });
  int shown = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (faults[i].empty() || shown++ == 3) continue;
    const Case smallest = shrink(cases[i], [](const Case& c) { return !fault_of(c).empty(); });
    FAIL_CHECK(describe(cases[i]) << "\n  " << faults[i] << "\n  smallest: " << describe(smallest) << "\n  "
                                  << fault_of(smallest));
  }
  CHECK(shown == 0);
}

}  // namespace

TEST_CASE("Every pair of settings trains the same model as the reference") {
  // Pairs of values that no legal case has, beside those that follow from `is_legal`: none. A pair is illegal
  // exactly when one excludes the other.
  using Pair = std::array<std::size_t, 4>;
  std::set<Pair> open;
  for (std::size_t f = 0; f < factor_count; ++f) {
    for (std::size_t g = f + 1; g < factor_count; ++g) {
      for (std::size_t a = 0; a < factors()[f].values.size(); ++a) {
        for (std::size_t b = 0; b < factors()[g].values.size(); ++b) open.insert({f, a, g, b});
      }
    }
  }
  const std::size_t pairs = open.size();
  std::vector<Case> cases;
  const auto add = [&](const Case& c) {
    cases.push_back(c);
    std::erase_if(open, [&](const Pair& p) { return c[p[0]] == p[1] && c[p[2]] == p[3]; });
  };
  constexpr std::uint64_t seed = 20261130;
  std::size_t illegal = 0;
  while (!open.empty()) {
    const Pair p = *open.begin();
    Case c;
    const bool found =
        draw_case(seed, cases.size(),
                  {{p[0], static_cast<std::uint8_t>(p[1])}, {p[2], static_cast<std::uint8_t>(p[3])}}, 20'000, c);
    if (found) {
      add(c);
    } else {
      ++illegal;
      open.erase(p);
    }
  }
  // By hand: sequence parallel needs tp (1), its overlap both (2·2), virtual stages a pipeline (1), no gpipe
  // (1) and no odd number of micro-batches (1), uneven stages a pipeline (2), instances zero and dp (2), one
  // kv head no tp (2), hence neither sequence parallel (1) nor overlap (2); and no more than 16 ranks: tp 4,
  // pp 4 and dp 1 at most, so no pair. The three folded layouts exclude tp (6), sequence parallel (3), its overlap
  // (6), weight gradients behind the send (3), unfused attention (3) and one kv head (3); the three rings unfused
  // attention (3), the two that exchange heads one kv head (2).
  CHECK(illegal == 17 + 29);
  CHECK(pairs > 1000);
  for (std::uint64_t index = cases.size(); cases.size() < 1000; ++index) {
    Case c;
    REQUIRE(draw_case(seed, index, {}, 100'000, c));
    add(c);
  }
  check_all(cases);
}

namespace {

void check_random(std::uint64_t seed, std::size_t count) {
  INFO("seed " << seed);
  std::vector<Case> cases(count);
  for (std::size_t i = 0; i < count; ++i) REQUIRE(draw_case(seed, i, {}, 100'000, cases[i]));
  check_all(cases);
}

}  // namespace

TEST_CASE("Random legal scenarios train the same model as the reference") { check_random(20261201, 100); }

TEST_CASE("Random legal scenarios train the same model as the reference: 1,000 of them", "[long]") {
  check_random(20261202, 1000);
}
