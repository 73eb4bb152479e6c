#include "sim/report/explain.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "sim/report/report_json.h"
#include "tests/report/finished_run.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

using Json = nlohmann::json;

Json report_of(const FinishedRun& run) {
  JsonText out;
  out.object();
  write_report(out, run.view(), run.report);
  out.end();
  return Json::parse(out.text());
}

double sum_of(const Json& numbers) {
  double sum = 0;
  for (const Json& number : numbers) sum += number.get<double>();
  return sum;
}

// The parts of an explained number whose name begins and ends so.
double sum_of_parts(const Json& explained, const std::string& key, const std::string& begin, const std::string& end = "") {
  double sum = 0;
  for (const Json& part : explained["numbers"][key]["parts"]) {
    const std::string name = part["name"];
    if (name.rfind(begin, 0) != 0 || name.size() < end.size()) continue;
    if (name.compare(name.size() - end.size(), end.size(), end) == 0) sum += part["value"].get<double>();
  }
  return sum;
}

Approx close_to(double value) { return Approx(value).epsilon(1e-9).margin(1e-15); }

// Runs of every kind of lowering, on both executors, folded and not, with ranks that are alike and not.
template <class Check>
void for_each_run(const Check& check) {
  const char* layouts[] = {R"({ "tp": 8, "dp": 2, "sequence_parallel": true, "zero": 1 })",
                           R"({ "tp": 2, "pp": 4, "dp": 2, "zero": 1, "recompute": "full" })",
                           R"({ "tp": 4, "pp": 2, "vpp": 2, "dp": 2, "zero": 0, "recompute": "selective" })"};
  const char* more[] = {"", R"(, "pass": "forward")", R"(, "host": { "graphs": true })",
                        R"(, "perturb": [{ "rank": 3, "compute_time": 1.5 }])"};
  for (const char* layout : layouts) {
    for (const char* setting : more) {
      INFO(layout << setting);
      check(FinishedRun(small_h100_scenario(layout, setting)));
      check(FinishedRun(small_h100_scenario(layout, setting), true));
      check(FinishedRun(small_h100_scenario(layout, setting), false, Executor::simgrid));
    }
  }
}

}  // namespace

TEST_CASE("Every number of the report is explained, by parts that add up to it") {
  for_each_run([](const FinishedRun& run) {
    const Json report = report_of(run);
    const Json explained = Json::parse(explanation_json(explain_report(run.view(), run.report)));
    for (const auto& [key, number] : explained["numbers"].items()) {
      INFO(key);
      CHECK(sum_of_parts(explained, key, "") == close_to(number["value"].get<double>()));
    }
    // What the scenario, the device or the count of ranks states is no result.
    const std::vector<std::string> given{"schema_version", "ranks", "device_memory_bytes", "memory_error",
                                         "peak_memory_rank"};
    for (const auto& [key, value] : report.items()) {
      if (!value.is_number() || std::find(given.begin(), given.end(), key) != given.end()) continue;
      INFO(key);
      REQUIRE(explained["numbers"].contains(key));
      CHECK(explained["numbers"][key]["value"] == value);
    }
  });
}

TEST_CASE("The numbers inside the report's tables are sums of the explained parts") {
  for_each_run([](const FinishedRun& run) {
    const Json report = report_of(run);
    const Json explained = Json::parse(explanation_json(explain_report(run.view(), run.report)));
    for (const auto& [kind, seconds] : report["compute_s_by_kind"].items()) {
      CHECK(seconds.get<double>() == close_to(sum_of_parts(explained, "compute_s", kind + " ")));
    }
    for (const auto& [phase, seconds] : report["compute_s_by_phase"].items()) {
      CHECK(seconds.get<double>() == close_to(sum_of_parts(explained, "compute_s", "", ", " + phase)));
    }
    for (const auto& [kind, seconds] : report["exposed_comm_s_by_kind"].items()) {
      CHECK(seconds.get<double>() == close_to(sum_of_parts(explained, "exposed_comm_s", kind + " ")));
    }
    for (const auto& [category, bytes] : report["memory_by_category"].items()) {
      CHECK(bytes.get<double>() == sum_of_parts(explained, "peak_memory_bytes", category));
      if (bytes == 0 || category == "framework") continue;
      CHECK(explained["numbers"].at("memory_by_category/" + category)["value"] == bytes);
    }
    for (const Json& stage : report["stages"]) {
      const std::string name = "language stage " + std::to_string(stage["stage"].get<int>()) + " ";
      const double share = stage["ranks"].get<double>() / report["ranks"].get<double>();
      for (const char* key : {"bubble_s", "host_s", "copy_s"}) {
        CHECK(stage[key].get<double>() * share == close_to(sum_of_parts(explained, key, name)));
      }
      CHECK(stage["ops"].get<double>() == sum_of_parts(explained, "ops", name));
    }
  });
}

TEST_CASE("The report's tables add up to the numbers above them") {
  for_each_run([](const FinishedRun& run) {
    const Json report = report_of(run);
    const double step = report["step_time_s"];
    const std::vector<const char*> shares{"compute_s", "bubble_s", "exposed_comm_s", "host_s", "copy_s"};
    double all_shares = 0;
    for (const char* key : shares) {
      all_shares += report[key].get<double>();
      double mean = 0;
      for (const Json& stage : report["stages"]) mean += stage[key].get<double>() * stage["ranks"].get<double>();
      CHECK(mean / report["ranks"].get<double>() == close_to(report[key].get<double>()));
    }
    CHECK(all_shares == close_to(step));
    CHECK(sum_of(report["compute_s_by_kind"]) == close_to(report["compute_s"].get<double>()));
    CHECK(sum_of(report["compute_s_by_phase"]) == close_to(report["compute_s"].get<double>()));
    CHECK(sum_of(report["exposed_comm_s_by_kind"]) == close_to(report["exposed_comm_s"].get<double>()));
    CHECK(sum_of(report["memory_by_category"]) == report["peak_memory_bytes"].get<double>());
    double ops = 0, ranks = 0, peak = 0;
    for (const Json& stage : report["stages"]) {
      double of_stage = 0;
      for (const char* key : shares) of_stage += stage[key].get<double>();
      CHECK(of_stage == close_to(step));
      CHECK(sum_of(stage["exposed_comm_s_by_kind"]) == close_to(stage["exposed_comm_s"].get<double>()));
      ops += stage["ops"].get<double>();
      ranks += stage["ranks"].get<double>();
      peak = std::max(peak, stage["peak_memory_bytes"].get<double>());
    }
    CHECK(ops == report["ops"].get<double>());
    CHECK(ranks == report["ranks"].get<double>());
    CHECK(peak == report["peak_memory_bytes"].get<double>());
    const Json& path = report["critical_path"];
    CHECK(sum_of(path["by_stage_s"]) == close_to(step));
    CHECK(path["compute_s"].get<double>() + sum_of(path["transfer_s_by_kind"]) + path["copy_s"].get<double>() +
              path["host_s"].get<double>() + path["start_s"].get<double>() ==
          close_to(step));
    // Exact on every rank, in picoseconds.
    for (const Breakdown& b : run.report.by_class) CHECK(b.total() == run.replayed.step);
  });
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
