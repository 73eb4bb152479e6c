#include "sim/report/explain.h"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "sim/report/report_json.h"
#include "tests/report/finished_run.h"

using namespace meshweave;
using namespace meshweave::testing;

TEST_CASE("The parts of every explained number add up to it") {
  for (const char* layout : {R"({ "tp": 8, "dp": 2, "sequence_parallel": true, "zero": 1 })",
                             R"({ "tp": 2, "pp": 4, "dp": 2, "zero": 1, "recompute": "full" })"}) {
    const FinishedRun run(small_h100_scenario(layout));
    const Explanation explanation = explain_report(run.view(), run.report);
    for (const ExplainedNumber& number : explanation.numbers) {
      INFO(number.key);
      double sum = 0;
      for (const ExplainedPart& part : number.parts) sum += part.value;
      CHECK(sum == Approx(number.value).epsilon(1e-9));
    }
  }
}

TEST_CASE("Every number of the report is explained, with the same value") {
  const FinishedRun run(small_h100_scenario(R"({ "tp": 2, "pp": 4, "dp": 2, "zero": 1 })"));
  JsonText out;
  out.object();
  write_report(out, run.view(), run.report);
  out.end();
  const nlohmann::json report = nlohmann::json::parse(out.text());
  const nlohmann::json explained = nlohmann::json::parse(explanation_json(explain_report(run.view(), run.report)));
  // What the scenario, the device or the count of ranks states is no result.
  const std::vector<std::string> given{"schema_version", "ranks", "device_memory_bytes", "memory_error",
                                       "peak_memory_rank"};
  for (const auto& [key, value] : report.items()) {
    if (!value.is_number() || std::find(given.begin(), given.end(), key) != given.end()) continue;
    INFO(key);
    REQUIRE(explained.at("numbers").contains(key));
    CHECK(explained["numbers"][key]["value"].get<double>() == value.get<double>());
  }
}

TEST_CASE("Ops name what their cost comes from") {
  const FinishedRun run(small_h100_scenario(R"({ "tp": 8, "dp": 2 })"));
  const Explanation explanation = explain_report(run.view(), run.report);
  REQUIRE_FALSE(explanation.ops.empty());
  for (const ExplainedOp& op : explanation.ops) {
    INFO(op.label);
    CHECK_FALSE(op.cost.empty());
    CHECK_FALSE(op.source.empty());
  }
}

TEST_CASE("The slowed rank is named with the delay that it causes") {
  // As in the report's test: 21 s instead of 15, 18 of them on the slowed rank.
  Scenario s = one_second_scenario(2, 1, 4);
  Perturbation slow;
  slow.index = 1;
  slow.compute_time = 1.5;
  s.perturb.push_back(slow);
  const FinishedRun run(std::move(s));
  Explanation explanation = explain_report(run.view(), run.report);
  explain_delay(explanation, run.view(), run.report, 15);
  CHECK(explanation.delay_s == Approx(6).epsilon(1e-12));
  REQUIRE(explanation.delays.size() == 1);
  CHECK(explanation.delays[0].what == "rank 1: compute × 1.5");
  CHECK(explanation.slowest ==
        "the step takes 6 s longer than without perturbations; most of it by rank 1: compute × 1.5, which holds "
        "85.7 % of the critical path");
  CHECK(explanation_text(explanation).find("on the critical path: rank 1: compute × 1.5") != std::string::npos);
}
