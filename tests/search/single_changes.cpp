#include "sim/search/single_changes.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/base/error.h"
#include "sim/scenario/reader.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

std::vector<std::string> options(const Scenario& scenario) {
  std::vector<std::string> texts;
  for (const Change& change : single_changes(scenario)) texts.push_back(option_text(change));
  return texts;
}

bool holds(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

}  // namespace

TEST_CASE("Every setting that is not yet at its end changes once, and what doubles halves dp") {
  DenseOptions layout;
  layout.tp = 2, layout.pp = 2, layout.dp = 4, layout.micro = 4;
  CHECK(options(dense_scenario(layout)) ==
        std::vector<std::string>{"--set /batch/micro=2", "--set /layout/language/recompute=selective",
                                 "--set /layout/language/recompute=full", "--set /layout/language/zero=1",
                                 "--set /layout/language/cp=2 --set /layout/language/dp=2",
                                 "--set /layout/language/tsp=2 --set /layout/language/tp=1",
                                 "--set /layout/language/tp=4 --set /layout/language/dp=2",
                                 "--set /layout/language/pp=4 --set /layout/language/dp=2"});
}

TEST_CASE("What is at its end does not change, and a forward pass has neither gradients nor optimizer") {
  DenseOptions layout;
  layout.dp = 4, layout.zero = 1, layout.recompute = Recompute::selective;
  const std::vector<std::string> degrees{"--set /layout/language/cp=2 --set /layout/language/dp=2",
                                         "--set /layout/language/tsp=2 --set /layout/language/dp=2",
                                         "--set /layout/language/tp=2 --set /layout/language/dp=2",
                                         "--set /layout/language/pp=2 --set /layout/language/dp=2"};
  std::vector<std::string> expected{"--set /layout/language/recompute=full"};
  expected.insert(expected.end(), degrees.begin(), degrees.end());
  CHECK(options(dense_scenario(layout)) == expected);
  layout = DenseOptions();
  layout.dp = 4, layout.pass = Pass::forward;
  CHECK(options(dense_scenario(layout)) == degrees);
}

TEST_CASE("An odd dp cannot be halved: the reader refuses what doubles, as the ranks do not add up") {
  const std::string text = R"({
    "cluster": { "node": "hgx-h100", "nodes": 3 },
    "model": { "language": { "hidden": 1024, "layers": 8, "heads": 16, "vocabulary": 32000, "sequence": 1024 } },
    "batch": { "global": 6 },
    "layout": { "language": { "tp": 8, "dp": 3, "recompute": "full", "zero": 1 } } })";
  const std::vector<Change> changes = single_changes(parse_scenario(text, "odd.json"));
  REQUIRE(changes.size() == 4);
  CHECK(option_text(changes[0]) == "--set /layout/language/cp=2");
  CHECK(option_text(changes[1]) == "--set /layout/language/tsp=8 --set /layout/language/tp=1");
  CHECK(option_text(changes[2]) == "--set /layout/language/tp=16");
  CHECK(option_text(changes[3]) == "--set /layout/language/pp=2");
  for (const std::size_t doubled : {2, 3})
    CHECK_THROWS_AS(parse_scenario(text, "odd.json", changes[doubled]), InputError);
}

TEST_CASE("Sequence parallelism over tp ends where tp becomes tsp") {
  DenseOptions layout;
  layout.tp = 4, layout.sequence_parallel = true;
  CHECK(
      holds(options(dense_scenario(layout)),
            "--set /layout/language/tsp=4 --set /layout/language/tp=1 --set /layout/language/sequence_parallel=false"));
}

TEST_CASE("cp and tsp are degrees, or objects whose settings stay") {
  DenseOptions layout;
  layout.tp = 2, layout.dp = 2;
  Scenario scenario = dense_scenario(layout);
  scenario.resolved_json = R"({ "layout": { "language": { "cp": 2, "tsp": 1 } } })";
  CHECK(holds(options(scenario), "--set /layout/language/cp=4 --set /layout/language/dp=1"));
  CHECK(
      holds(options(scenario), "--set /layout/language/tsp=4 --set /layout/language/tp=1 --set /layout/language/cp=1"));
  scenario.resolved_json =
      R"({ "layout": { "language": { "cp": { "degree": 2, "kind": "ring" }, "tsp": { "degree": 1 } } } })";
  CHECK(holds(options(scenario),
              R"(--set '/layout/language/cp={ "degree": 4, "kind": "ring" }' --set /layout/language/dp=1)"));
  CHECK(
      holds(options(scenario), "--set /layout/language/tsp=4 --set /layout/language/tp=1 --set /layout/language/cp=1"));
  scenario.resolved_json = R"({ "layout": { "language": { "tsp": { "degree": 4, "ring": "striped" } } } })";
  CHECK(holds(options(scenario),
              R"(--set '/layout/language/tsp={ "degree": 8, "ring": "striped" }' --set /layout/language/dp=1)"));
}

TEST_CASE("Options are quoted for a shell") {
  CHECK(option_text({{"/layout/a b/tp", "2"}}) == "--set '/layout/a b/tp=2'");
  CHECK(option_text({{"/layout/it's/tp", "2"}}) == R"(--set '/layout/it'\''s/tp=2')");
  CHECK(option_text({{"/layout/~1/tp", "2"}}) == "--set '/layout/~1/tp=2'");
}
