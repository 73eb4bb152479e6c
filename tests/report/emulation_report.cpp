// What an emulation shows.
#include "sim/report/emulation_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/dense_scenario.h"

using namespace meshweave;
using Json = nlohmann::json;

namespace {

// A training of three steps whose parameters "a", "b" and "c" differ most in another thing each.
EmulationReport made_report() {
  EmulationReport r;
  r.loss = r.reference_loss = {3, 2, 1};
  r.parameters = {{{-1, "a"}, 2e-11, 3e-11}, {{0, "b"}, 5e-11, 0}, {{1, "c"}, 1e-11, 4e-11}};
  r.gradient_error = 5e-11, r.update_error = 4e-11, r.norm_error = 6e-11;
  r.tolerance = 1e-10;
  r.updates_shown = r.updates_judged = true;
  r.matches = true;
  return r;
}

struct Shown {
  Scenario scenario = testing::dense_scenario({});
  EmulationReport report = made_report();
  EmulationJudgement judgement;
  EmulationPrecision precision = EmulationPrecision::double_precision;

  EmulationView view() const { return {scenario, false, 1, precision, report, judgement}; }
  std::string page() const { return emulation_page(view()); }
  Json json() const {
    JsonText out;
    out.object();
    write_emulation(out, view());
    out.end();
    return Json::parse(out.take());
  }
};

// Names of the parameters in the order of the page's table.
std::vector<std::string> order(const std::string& page) {
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const char* name : {"  a ", "  layer 0 b", "  layer 1 c"}) found.emplace_back(page.find(name), name);
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (const auto& [at, name] : found) {
    REQUIRE(at != std::string::npos);
    names.push_back(name.substr(name.find_last_not_of(' '), 1));
  }
  return names;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("The parameters that differ most are sorted by the worst of what is judged") {
  Shown shown;
  // The worst of gradient and update: a 3e-11, b 5e-11, c 4e-11.
  CHECK(order(shown.page()) == std::vector<std::string>{"b", "c", "a"});
  // In float gradients alone are judged: a 2e-11, b 5e-11, c 1e-11.
  shown.report.updates_judged = false;
  shown.precision = EmulationPrecision::single_precision;
  CHECK(order(shown.page()) == std::vector<std::string>{"b", "a", "c"});
  CHECK(contains(shown.page(), "; updates are shown, not judged in float)"));
}

TEST_CASE("A norm that is not made is not shown") {
  Shown shown;
  CHECK(contains(shown.page(), "gradient norm 6.0e-11"));
  CHECK(shown.json()["gradient_norm_error"] == 6e-11);
  shown.scenario.optimizer.clip = 0;
  CHECK_FALSE(contains(shown.page(), "gradient norm"));
  CHECK(shown.json()["gradient_norm_error"].is_null());
}

TEST_CASE("A forward pass has neither gradients nor updates to show") {
  Shown shown;
  shown.scenario.pass = Pass::forward;
  shown.report.parameters.clear();
  shown.report.updates_shown = shown.report.updates_judged = false;
  CHECK(contains(shown.page(), "1 rank emulated in double, forward pass only\n"));
  CHECK(contains(
      shown.page(),
      "\nmatches the reference: largest relative errors: loss 0.0e+00 (tolerance 1e-10; forward pass only)\n"));
  const Json json = shown.json();
  CHECK(json["pass"] == "forward");
  CHECK(json["not_judged"] == "forward pass only");
  for (const char* key : {"gradient_norm_error", "gradient_error", "update_error", "parameters"}) {
    CAPTURE(key);
    CHECK(json.at(key).is_null());
  }
}

TEST_CASE("Updates that rounding hides are not shown, and the page says why") {
  Shown shown;
  shown.report.updates_shown = shown.report.updates_judged = false;
  shown.scenario.optimizer.adam.learning_rate = 0;
  CHECK(contains(shown.page(), "gradients 5.0e-11 (tolerance 1e-10; updates not judged: learning rate 0)\n"));
  CHECK(shown.json()["update_error"].is_null());
  CHECK(shown.json()["updates_judged"] == false);
  CHECK(shown.json()["parameters"][0]["update_error"].is_null());
  shown.scenario.optimizer.adam.learning_rate = 1e-9;
  CHECK(
      contains(shown.page(),
               "updates not judged: learning rate 1e-09, which changes parameters by little more than their rounding"));
}

TEST_CASE("The verdict stands on the page and in the JSON, with its reason") {
  Shown shown;
  CHECK(contains(shown.page(), "\nmatches the reference: "));
  CHECK(shown.json()["verdict"] == "matches");
  CHECK(shown.json()["reason"] == "every error is within the tolerance");

  shown.report.matches = false;
  shown.report.update_error = 2e-10;
  shown.judgement.ops = OpComparison{std::nullopt, 3e-13};
  shown.judgement.two_steps = made_report();
  shown.judgement.verdict = EmulationVerdict::rounding;
  const std::vector<std::string> rounding{
      "rounding that training amplifies over 3 steps",
      "every op of every step was compared with the reference in double, from its parameters of that step, and none is "
      "wrong (largest relative error 3.0e-13)",
      "2 steps alone match: loss 0.0e+00, gradient norm 6.0e-11, gradients 5.0e-11, updates 4.0e-11",
      "a smaller learning rate or fewer steps show the layout alone"};
  CHECK(contains(shown.page(),
                 fmt::format("\n  {}\ndiffers from the reference by ROUNDING alone: largest relative errors: ",
                             fmt::join(rounding, "\n  "))));
  CHECK(shown.json()["verdict"] == "rounding");
  CHECK(shown.json()["matches"] == false);
  CHECK(shown.json()["reason"] == fmt::format("{}", fmt::join(rounding, "; ")));

  shown.judgement.two_steps->update_error = 3e-10;
  shown.judgement.verdict = EmulationVerdict::differs;
  CHECK(contains(shown.page(), "\n  no op could be named\n  every op of every step was compared"));
  CHECK(contains(shown.page(),
                 "\n  2 steps alone differ too: loss 0.0e+00, gradient norm 6.0e-11, gradients 5.0e-11, updates "
                 "3.0e-10\nDIFFERS from the reference: "));
  CHECK(shown.json()["verdict"] == "differs");

  shown.judgement.ops->wrong = WrongOp{3, 1, 7, "rank 3: op 7"};
  CHECK(contains(shown.page(), "  first wrong value: rank 3: op 7\nDIFFERS"));
  CHECK(shown.json()["reason"] == "first wrong value: rank 3: op 7");
  CHECK(shown.json()["first_wrong"]["step"] == 1);
}
