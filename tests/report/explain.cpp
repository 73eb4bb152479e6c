#include "sim/report/explain.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/quantity.h"
#include "sim/report/report_json.h"
#include "sim/report/report_table.h"
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
double sum_of_parts(const Json& explained, const std::string& key, const std::string& begin,
                    const std::string& end = "") {
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
  explain_delay(explanation, run.view(), run.report, 15, {15});
  CHECK(explanation.delay_s == Approx(6).epsilon(1e-12));
  REQUIRE(explanation.delays.size() == 1);
  CHECK(explanation.delays[0].what == "rank 1: compute × 1.5");
  CHECK(explanation.slowest ==
        "the step takes 6 s longer than without perturbations; all of it by rank 1: compute × 1.5, which holds "
        "85.7 % of the critical path");
  CHECK(explanation_text(explanation).find("on the critical path: rank 1: compute × 1.5") != std::string::npos);
}

namespace {

constexpr double one_second_step = 15;  // of two stages and four micro-batches at 1 s per pass

Perturbation slow_rank(int rank, double factor) {
  Perturbation p;
  p.index = rank;
  p.compute_time = factor;
  return p;
}

// Explains two stages under perturbations; the step without one of them each comes from runs of their own.
Explanation explained_with(const std::vector<Perturbation>& perturb, std::uint64_t seed = 1) {
  Scenario s = one_second_scenario(2, 1, 4);
  s.seed = seed;
  s.perturb = perturb;
  std::vector<double> without;
  for (std::size_t p = 0; p < perturb.size(); ++p) {
    Scenario others = s;
    others.perturb.erase(others.perturb.begin() + static_cast<std::ptrdiff_t>(p));
    without.push_back(FinishedRun(others).report.step_time_s);
  }
  const FinishedRun run(s);
  Explanation explanation = explain_report(run.view(), run.report);
  explain_delay(explanation, run.view(), run.report, one_second_step, without);
  return explanation;
}

}  // namespace

TEST_CASE("What does not lengthen the step is not named as who delays it") {
  const Explanation same = explained_with({slow_rank(1, 1)});
  CHECK(same.delay_s == 0);
  CHECK(same.slowest.find("the perturbations do not delay the step; ") == 0);
  CHECK(same.slowest.find("rank 1") == std::string::npos);

  // Both stages at half the time: 7.5 s.
  const Explanation faster = explained_with({slow_rank(0, 0.5), slow_rank(1, 0.5)});
  CHECK(faster.delay_s == Approx(-7.5).epsilon(1e-12));
  CHECK(faster.slowest.find("the step takes 7.5 s less than without perturbations; ") == 0);

  // Rank 0 does nothing: the culprit is rank 1, which alone makes the 6 s.
  const Explanation one = explained_with({slow_rank(0, 1), slow_rank(1, 1.5)});
  CHECK(one.delays[0].delay_s == Approx(0).margin(1e-12));
  CHECK(one.delays[1].delay_s == Approx(6).epsilon(1e-12));
  CHECK(one.slowest.find(
            "the step takes 6 s longer than without perturbations; the largest part by rank 1: compute × 1.5, "
            "without which the step takes 6 s less") == 0);
}

TEST_CASE("Jitter is named as what it is, without a part of the critical path") {
  Perturbation jitter;
  jitter.target = PerturbTarget::jitter;
  jitter.sigma = 0.2;
  const Explanation explained = explained_with({jitter}, 5);
  REQUIRE(explained.delay_s > 0);
  REQUIRE(explained.delays.size() == 1);
  CHECK_FALSE(explained.delays[0].path_s);
  CHECK(explained.delays[0].delay_s == explained.delay_s);
  CHECK(explained.slowest.find("; all of it by jitter: sigma 0.2, which touches the compute ops of all ranks") !=
        std::string::npos);
  CHECK(explained.slowest.find("critical path") == std::string::npos);
}

TEST_CASE("A slowed link holds what crosses it, a slowed rank what it computes") {
  // Two nodes; tp inside a node, dp between the nodes: only the tensor collectives use the links inside, only those of
  // gradients and parameters the NICs, and the one of the gradient norm over all ranks uses both.
  const auto path = [](const std::string& perturb) {
    return FinishedRun(small_h100_scenario(R"({ "tp": 8, "dp": 2, "zero": 1 })", ", \"perturb\": [" + perturb + "]"))
        .report.path;
  };
  const auto transfers = [](const PathReport& p, StreamKind kind) {
    return p.transfer_s[static_cast<std::size_t>(kind)];
  };
  const PathReport intra = path(R"({ "link": "intra", "rank": 3, "bandwidth": 0.01 })");
  CHECK(transfers(intra, StreamKind::tensor) > 0.1 * intra.compute_s);
  CHECK(intra.by_perturbation[0] == Approx(transfers(intra, StreamKind::tensor)).epsilon(1e-3));
  const PathReport nic = path(R"({ "link": "nic", "rank": 3, "bandwidth": 0.01 })");
  CHECK(transfers(nic, StreamKind::data) > 0);
  CHECK(nic.by_perturbation[0] == Approx(transfers(nic, StreamKind::data)).epsilon(1e-9));
  const PathReport rank = path(R"({ "rank": 3, "compute_time": 8 })");
  CHECK(rank.by_perturbation[0] > 0);
  CHECK(rank.by_perturbation[0] <= rank.compute_s * (1 + 1e-12));
}

TEST_CASE("The page names a slowed link as a link, and nothing that is not slower") {
  const auto page = [](const std::string& perturb) {
    const FinishedRun run(
        small_h100_scenario(R"({ "tp": 8, "dp": 2, "zero": 1 })", ", \"perturb\": [" + perturb + "]"));
    return report_page(run.view(), run.report);
  };
  const std::string link = page(R"({ "link": "nic", "rank": 3, "bandwidth": 0.01 })");
  CHECK(link.find("\n  on slowed nic of rank 3") != std::string::npos);
  CHECK(link.find("slowed rank") == std::string::npos);
  CHECK(page(R"({ "rank": 3, "compute_time": 0.5 }, { "rank": 2, "compute_time": 1 })").find("slowed") ==
        std::string::npos);
}

TEST_CASE("Host-bound time is explained by the time per op, the ops and where the time comes from") {
  const FinishedRun bound(small_h100_scenario(R"({ "tp": 8, "dp": 2 })"));
  REQUIRE(bound.report.path.host_s > 0.5 * bound.report.step_time_s);
  const Explanation explained = explain_report(bound.view(), bound.report);
  const auto host_of = [](const Explanation& e) {
    return *std::find_if(e.numbers.begin(), e.numbers.end(),
                         [](const ExplainedNumber& n) { return n.key == "host_s"; });
  };
  const ExplainedNumber host = host_of(explained);
  const DeviceModel& device = bound.scenario.cluster.node.device;
  CHECK(host.source == device.source);
  CHECK(host.rule.find("Issuing costs " + format_quantity(device.host_issue_s, QuantityKind::seconds) +
                       " per op (h100-sxm), CUDA graphs (host.graphs) off") != std::string::npos);
  const std::string ops = std::to_string(bound.report.ops / 16);
  REQUIRE(host.parts.size() == 1);
  CHECK(host.parts[0].name.find("language stage 0 (16 ranks × " + ops + " ops: ") == 0);
  CHECK(explained.slowest.find("the host holds ") == 0);

  const FinishedRun set(small_h100_scenario(R"({ "tp": 8, "dp": 2 })", R"(, "host": { "issue": "50 us" })"));
  const ExplainedNumber by_scenario = host_of(explain_report(set.view(), set.report));
  CHECK(by_scenario.source == "the scenario");
  CHECK(by_scenario.rule.find("50 us per op (host.issue)") != std::string::npos);

  const FinishedRun graphs(small_h100_scenario(R"({ "tp": 8, "dp": 2 })", R"(, "host": { "graphs": true })"));
  const Explanation without = explain_report(graphs.view(), graphs.report);
  CHECK(host_of(without).rule.find("Issuing costs nothing: CUDA graphs (host.graphs) are on") != std::string::npos);
  CHECK(without.slowest.find("the host") == std::string::npos);
}

TEST_CASE("A forward pass is called one, where its FLOPs are explained and on the page") {
  const FinishedRun forward(small_h100_scenario(R"({ "tp": 8, "dp": 2 })", R"(, "pass": "forward")"));
  const std::string text = explanation_text(explain_report(forward.view(), forward.report));
  CHECK(text.find(
            "\n  forward of one step, full attention, no recomputation: Korthikanti et al. 2205.05198, equation 3, of "
            "which forward is a third\n") != std::string::npos);
  CHECK(report_page(forward.view(), forward.report).find("schedule 1f1b, forward only\n") != std::string::npos);
  const FinishedRun train(small_h100_scenario(R"({ "tp": 8, "dp": 2 })"));
  CHECK(report_page(train.view(), train.report).find("forward only") == std::string::npos);
}

TEST_CASE("Ops of one name are one line, whatever their shapes, buckets are one part") {
  const FinishedRun run(
      small_h100_scenario(R"({ "dp": 16, "zero": 1 })", R"(, "optimizer": { "bucket_parameters": 10000000 })"));
  const Explanation explanation = explain_report(run.view(), run.report);
  std::set<std::string> names;
  for (const ExplainedOp& op : explanation.ops) CHECK(names.insert(op.kind + op.label + op.phase).second);
  const std::string text = explanation_text(explanation);
  CHECK(text.find(" other shapes)") != std::string::npos);
  CHECK(text.find(" × gradients bucket  ") != std::string::npos);
  CHECK(text.find("1 × gradients bucket") == std::string::npos);
}
