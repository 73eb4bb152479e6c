#include "sim/report/comparison.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/report/build_trace.h"
#include "sim/trace/trace_reader.h"
#include "sim/trace/trace_writer.h"
#include "tests/report/finished_run.h"

using namespace meshweave;
using namespace meshweave::testing;
using Json = nlohmann::json;

namespace {

ComparedRun run_of(Scenario scenario, bool fold = true, Executor executor = Executor::analytic) {
  const FinishedRun run(std::move(scenario), fold, executor);
  return compared_run(run.view(), "small.json");
}

ComparedRun run_of(const std::string& layout, const std::string& more = "") {
  return run_of(small_h100_scenario(layout, more));
}

Picoseconds total(const std::vector<PartChange>& changes) {
  Picoseconds sum{0};
  for (const PartChange& change : changes) sum += change.change();
  return sum;
}

double headline(const Comparison& comparison, std::string_view key) {
  for (const HeadlinePair& pair : comparison.headlines) {
    if (pair.key == key) return pair.b.value();
  }
  FAIL("no headline " << key);
  return 0;
}

// What a reader of the written file has.
Trace through_file(const Trace& trace) {
  std::string text;
  write_trace(trace, [&](std::string_view piece) { text += piece; });
  return parse_trace(text, "small-trace.json");
}

const std::string layouts[] = {
    R"({ "tp": 2, "pp": 4, "dp": 2, "zero": 1 })",
    R"({ "tp": 2, "pp": 4, "vpp": 2, "dp": 2 })",
    R"({ "tp": 8, "dp": 2, "sequence_parallel": true, "recompute": "full" })",
    R"({ "tp": 2, "cp": 4, "dp": 2, "recompute": "selective" })",
    R"({ "tsp": 4, "pp": 2, "dp": 2, "zero": 1 })",
    R"({ "dp": 16, "zero": 1 })",
};

}  // namespace

TEST_CASE("The changes of the parts add up to that of the step to the picosecond, for any pair of layouts") {
  std::vector<ComparedRun> runs;
  for (const std::string& layout : layouts) runs.push_back(run_of(layout));
  for (const ComparedRun& a : runs) {
    for (const ComparedRun& b : runs) {
      const Comparison comparison = compare_runs(a, b);
      CHECK(comparison.change() == b.parts.step - a.parts.step);
      CHECK(total(comparison.parts) == comparison.change());
      CHECK(total(comparison.groups) == comparison.change());
      for (const StageParts& stage : b.parts.stages) {
        Picoseconds sum{0};
        for (const StepPart& part : stage.mean.parts) sum += part.time;
        CHECK(sum == b.parts.step);
      }
    }
  }
}

TEST_CASE("Other executors and unequal numbers of ranks add up as well") {
  const ComparedRun a = run_of(one_second_scenario(4, 1, 8));
  const ComparedRun b = run_of(one_second_scenario(3, 2, 6), false);
  CHECK(total(compare_runs(a, b).parts) == b.parts.step - a.parts.step);
  const ComparedRun flows = run_of(small_h100_scenario(layouts[0]), false, Executor::simgrid);
  const ComparedRun simple = run_of(layouts[0]);
  CHECK(total(compare_runs(simple, flows).parts) == flows.parts.step - simple.parts.step);
}

TEST_CASE("Identical runs differ in nothing") {
  const Comparison comparison = compare_runs(run_of(layouts[0]), run_of(layouts[0]));
  CHECK(comparison.change() == Picoseconds{0});
  for (const PartChange& part : comparison.parts) CHECK(part.change() == Picoseconds{0});
  for (const HeadlinePair& pair : comparison.headlines) CHECK(pair.a == pair.b);
  REQUIRE(comparison.settings);
  CHECK(comparison.settings->empty());
  const std::string page = comparison_page(comparison);
  CHECK(page.find("\nno setting differs\n") != std::string::npos);
  CHECK(page.find("\nno part of the step differs\n") != std::string::npos);
}

TEST_CASE("A device with slower matmuls shows in the part of the matmuls") {
  // Without the time of the host, behind which a small model's kernels would hide.
  const std::string graphs = R"(, "host": { "graphs": true })";
  Scenario slow = small_h100_scenario(layouts[5], graphs);
  for (auto& tile : slow.cluster.node.device.matmul.tiles) tile.efficiency /= 8;
  const Comparison comparison = compare_runs(run_of(layouts[5], graphs), run_of(slow));
  CHECK(comparison.change() > Picoseconds{0});
  CHECK(comparison.parts.front().key == PartKey{PartKind::compute, "matmul", ""});
  CHECK(comparison.parts.front().change() > Picoseconds{0});
  CHECK(total(comparison.parts) == comparison.change());
}

TEST_CASE("A longer pipeline's ideal bubble is what its step grows by") {
  // Each stage computes 3 s per micro-batch and 8 of them: 24 s, and (p - 1) · 3 s of bubble: 3 s of 2 stages, 9 of 4.
  const Comparison comparison =
      compare_runs(run_of(one_second_scenario(2, 1, 8)), run_of(one_second_scenario(4, 1, 8)));
  CHECK(comparison.parts.front().key.part == PartKind::bubble);
  CHECK(seconds_from_picoseconds(comparison.parts.front().change()) == Approx(6).margin(1e-6));
  CHECK(seconds_from_picoseconds(comparison.change()) == Approx(6).margin(1e-6));
}

TEST_CASE("The headlines of a compared run are those of its report") {
  for (const std::string& layout : layouts) {
    const FinishedRun run(small_h100_scenario(layout), true);
    const Comparison comparison = compare_runs(run_of(layouts[0]), compared_run(run.view(), "b.json"));
    for (const char* key : {"step_time_s", "tokens_per_s", "tflops_per_gpu", "mfu", "peak_memory_bytes",
                            "exposed_comm_fraction", "bubble_fraction"}) {
      INFO(key);
      // Means here are whole picoseconds, those of the report are not.
      CHECK(headline(comparison, key) == Approx(metric(run.report, key).value()).epsilon(1e-9).margin(1e-9));
    }
    CHECK(headline(comparison, "gpus") == run.report.ranks);
    CHECK(headline(comparison, "micro_batches") == run.plan.modules.front().micro_batches);
    REQUIRE(comparison.b.parts.stages.size() == run.report.stages.size());
    for (std::size_t s = 0; s < run.report.stages.size(); ++s) {
      const StageReport& expected = run.report.stages[s];
      const StageParts& stage = comparison.b.parts.stages[s];
      CHECK(stage.module == "language");
      CHECK(stage.stage == expected.stage);
      CHECK(stage.mean.ranks == expected.ranks);
      CHECK(stage.mean.peak_memory_bytes == expected.peak_memory_bytes);
      CHECK(seconds_from_picoseconds(stage.mean.of(PartKind::bubble)) == Approx(expected.mean.bubble_s).margin(1e-11));
    }
  }
}

TEST_CASE("A run and the trace that it wrote differ by the nanoseconds of the file only") {
  for (const std::string& layout : layouts) {
    const FinishedRun run(small_h100_scenario(layout), true);
    for (const bool all_ranks : {false, true}) {
      TraceRequest request;
      request.all_ranks = all_ranks;
      const Trace trace = through_file(build_trace(run.view(), request, "test"));
      const Comparison comparison = compare_runs(compared_run(run.view(), "small.json"), compared_run(trace, "t.json"));
      CHECK(comparison.b.from_trace);
      CHECK(std::abs(comparison.change().count()) < 2000);
      CHECK(total(comparison.parts) == comparison.change());
      // Each slice has two ends that are rounded by less than a nanosecond.
      const auto most = static_cast<std::int64_t>(2000 * trace.slices.size());
      for (const PartChange& part : comparison.parts) CHECK(std::abs(part.change().count()) < most);
      for (const HeadlinePair& pair : comparison.headlines) CHECK(*pair.a == Approx(*pair.b).margin(1e-4));
      REQUIRE(comparison.settings);
      CHECK(comparison.settings->empty());
      CHECK(comparison.b.parts.mean.peak_memory_bytes == run.report.memory.peak_bytes);
    }
  }
}

TEST_CASE("Settings that differ are named by pointer, with both values") {
  const Comparison comparison =
      compare_runs(run_of(layouts[0]), run_of(layouts[1], R"(, "perturb": [ { "rank": 0, "compute_time": 2 } ])"));
  REQUIRE(comparison.settings);
  const auto find = [&](std::string_view pointer) {
    for (const SettingPair& pair : *comparison.settings) {
      if (pair.pointer == pointer) return pair.a + " | " + pair.b;
    }
    return std::string("same");
  };
  CHECK(find("/layout/language/vpp") == "1 | 2");
  CHECK(find("/layout/language/zero") == "1 | 0");
  CHECK(find("/layout/language/tp") == "same");
  CHECK(find("/perturb").starts_with("[] | [{"));
}

TEST_CASE("Settings: other names stand for the rest, absent members have no value, the run's own name does not count") {
  const auto found = differing_settings(
      R"({"name": "a", "device": {"name": "x", "peak": 1}, "only": {"k": 1}, "list": [1, 2], "text": "a/b"})",
      R"({"name": "b", "device": {"name": "y", "peak": 2}, "list": [1, 3], "text": "a/b", "new/key": null})");
  REQUIRE(found);
  std::string text;
  for (const SettingPair& pair : *found) text += pair.pointer + ": " + pair.a + " | " + pair.b + "\n";
  CHECK(text == "/device/name: \"x\" | \"y\"\n/only: { \"k\": 1 } | \n/list/1: 2 | 3\n/new~1key:  | null\n");
  CHECK_FALSE(differing_settings("", "{}"));
  CHECK_FALSE(differing_settings("{}", "no JSON"));
}

TEST_CASE("A trace without a scenario is compared by what it holds") {
  const FinishedRun run(small_h100_scenario(layouts[0]), true);
  Trace trace = build_trace(run.view(), TraceRequest{}, "test");
  for (const char* resolved : {"", R"({ "setting_of_another_version": 1 })"}) {
    trace.provenance.resolved = resolved;
    const Comparison comparison = compare_runs(compared_run(run.view(), "a.json"), compared_run(trace, "b.json"));
    CHECK_FALSE(comparison.b.scenario);
    CHECK(comparison.settings.has_value() == (*resolved != '\0'));
    CHECK(comparison.change() == Picoseconds{0});
    CHECK(comparison_page(comparison).find("its scenario is not known") != std::string::npos);
    JsonText out;
    out.object(), write_comparison(out, comparison), out.end();
    const Json json = Json::parse(out.text());
    CHECK(json["b"]["tokens_per_s"].is_null());
    CHECK(json["b"]["verdict"].is_null());
    CHECK(json["change"].contains("peak_memory_bytes"));
    CHECK_FALSE(json["change"].contains("gpus"));
  }
}

TEST_CASE("A trace of some ranks says how many it lacks") {
  const FinishedRun run(small_h100_scenario(layouts[0]), false);
  TraceRequest request;
  request.ranks = {0, 1, 2, 3};
  const ComparedRun part = compared_run(build_trace(run.view(), request, "test"), "t.json");
  CHECK(part.parts.mean.ranks == 4);
  const std::string page = comparison_page(compare_runs(compared_run(run.view(), "a.json"), part));
  CHECK(page.find("all below without 12 ranks that the trace does not hold") != std::string::npos);
}
