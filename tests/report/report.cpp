#include "sim/report/report.h"

#include <catch2/catch.hpp>

#include "sim/report/report_json.h"
#include "sim/report/report_table.h"
#include "tests/report/finished_run.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

std::string json_of(const FinishedRun& run) {
  JsonText out(2);
  out.object();
  write_report(out, run.view(), run.report);
  out.end();
  return out.take();
}

double total(const TimeShares& shares) {
  return shares.compute_s + shares.bubble_s + shares.exposed_total_s() + shares.host_s + shares.copy_s;
}

}  // namespace

TEST_CASE("The bubble of 1F1B is the closed form") {
  // p = 2, m = 4, F = B = W = 1 s: (m + p - 1) · 3 = 15 s, of which each stage computes 4 · 3 = 12.
  const FinishedRun run(one_second_scenario(2, 1, 4));
  CHECK(run.report.step_time_s == Approx(15).epsilon(1e-12));
  CHECK(run.report.mean.compute_s == Approx(12).epsilon(1e-12));
  CHECK(run.report.mean.bubble_s == Approx(3).epsilon(1e-12));
  CHECK(run.report.bubble_fraction() == Approx(0.2).epsilon(1e-12));
  CHECK(run.report.bubble_over_ideal() == Approx(0.25).epsilon(1e-12));
  CHECK(run.report.bubble_over_ideal_closed_form == 0.25);
  REQUIRE(run.report.stages.size() == 2);
  for (const StageReport& stage : run.report.stages) {
    CHECK(stage.ranks == 1);
    CHECK(stage.mean.bubble_s == Approx(3).epsilon(1e-12));
  }
}

TEST_CASE("A slowed stage delays the step and is found on the critical path") {
  // Stage 1 takes 1.5 + 3 = 4.5 s per micro-batch and never waits after its first input: 1 (forward of stage 0)
  // + 4 · 4.5 + 2 (last backward of stage 0) = 21 s. Stage 1 is on the path for 18 of them.
  Scenario s = one_second_scenario(2, 1, 4);
  Perturbation slow;
  slow.index = 1;
  slow.compute_time = 1.5;
  s.perturb.push_back(slow);
  const FinishedRun run(std::move(s));
  CHECK(run.report.step_time_s == Approx(21).epsilon(1e-12));
  CHECK(run.report.stages[0].mean.bubble_s == Approx(9).epsilon(1e-12));
  CHECK(run.report.stages[1].mean.bubble_s == Approx(3).epsilon(1e-12));
  REQUIRE(run.report.path.by_perturbation.size() == 1);
  CHECK(run.report.path.by_perturbation[0] == Approx(18).epsilon(1e-12));
  CHECK(run.report.path.by_stage[0] == Approx(3).epsilon(1e-12));
  CHECK(run.report.path.compute_s == Approx(21).epsilon(1e-12));
}

TEST_CASE("A slowed first stage delays the step less: its forwards fill the gap before the first gradient") {
  // Stage 0 takes 1.5 s forward and 3 s backward, stage 1 half of it. Stage 0 runs F0 0-1.5, F1 1.5-3, and waits:
  // stage 1 has F0 at 1.5-2.5 and its backward at 2.5-4.5. From then on the gradient of a micro-batch is there before
  // stage 0 has done with the last one: B0 4.5-7.5, F2 -9, B1 -12, F3 -13.5, B2 -16.5. Stage 1 gets F3 at 13.5 and its
  // gradient is back at 16.5, just in time: B3 16.5-19.5. So 4 × 4.5 s and 1.5 s of waiting, 4.5 s later than 15 s.
  Scenario s = one_second_scenario(2, 1, 4);
  Perturbation slow;
  slow.index = 0;
  slow.compute_time = 1.5;
  s.perturb.push_back(slow);
  for (const Executor executor : {Executor::analytic, Executor::simgrid}) {
    const FinishedRun run(s, false, executor);
    CHECK(run.report.step_time_s == Approx(19.5).epsilon(1e-12));
    CHECK(run.report.stages[0].mean.bubble_s == Approx(1.5).epsilon(1e-12));
    CHECK(run.report.stages[1].mean.bubble_s == Approx(7.5).epsilon(1e-12));
  }
}

TEST_CASE("On every rank compute, bubble, exposed, host-bound and copy add up to the step") {
  for (const char* layout : {R"({ "tp": 8, "dp": 2, "sequence_parallel": true, "zero": 1 })",
                             R"({ "tp": 2, "pp": 4, "dp": 2, "zero": 1, "recompute": "full" })",
                             R"({ "tp": 4, "pp": 2, "vpp": 2, "dp": 2, "zero": 0, "recompute": "selective" })",
                             R"({ "dp": 16, "zero": 1 })"}) {
    for (const char* more : {"", R"(, "host": { "graphs": true })", R"(, "pass": "forward")",
                             R"(, "overlap": { "grad_reduce": false, "param_gather": false })"}) {
      INFO(layout << more);
      const FinishedRun run(small_h100_scenario(layout, more));
      const Report& r = run.report;
      REQUIRE(r.by_class.size() == 16);
      for (const Breakdown& b : r.by_class) CHECK(b.total() == run.replayed.step);
      CHECK(total(r.mean) == Approx(r.step_time_s).epsilon(1e-12));
      for (const StageReport& stage : r.stages) CHECK(total(stage.mean) == Approx(r.step_time_s).epsilon(1e-12));
      const PathReport& path = r.path;
      double on_path = path.compute_s + path.copy_s + path.host_s + path.start_s;
      for (const double seconds : path.transfer_s) on_path += seconds;
      CHECK(on_path == Approx(r.step_time_s).epsilon(1e-12));
      std::int64_t executions = 0;
      for (const SpecUse& use : r.uses) executions += use.executions;
      CHECK(executions == r.ops);
      CHECK(2 * static_cast<std::uint64_t>(r.ops) == run.replayed.events);  // the step is played twice
    }
  }
}

TEST_CASE("A folded run gives the same report") {
  for (const char* layout : {R"({ "tp": 8, "dp": 2, "sequence_parallel": true, "zero": 1 })",
                             R"({ "tp": 2, "pp": 4, "dp": 2, "zero": 1, "recompute": "full" })",
                             R"({ "tp": 2, "pp": 2, "vpp": 2, "dp": 4 })"}) {
    INFO(layout);
    const FinishedRun folded(small_h100_scenario(layout), true);
    const FinishedRun whole(small_h100_scenario(layout), false);
    CHECK(folded.classes.count() < whole.classes.count());
    CHECK(json_of(folded) == json_of(whole));
  }
}

TEST_CASE("Rates follow their definitions") {
  const FinishedRun run(small_h100_scenario(R"({ "tp": 8, "dp": 2 })"));
  const Report& r = run.report;
  // 32 samples of 1024 tokens; 16 devices of 989.4e12 FLOP/s.
  CHECK(r.samples_per_s == Approx(32 / r.step_time_s));
  CHECK(r.tokens_per_s == Approx(32 * 1024 / r.step_time_s));
  // 72·B·L·s·h²·(1 + s/6h + V/12hL) with V = 32000 padded to a multiple of 128 · 8: 32768.
  const double h = 1024, l = 8, s = 1024, v = 32768;
  const double flops = 32 * 72 * l * s * h * h * (1 + s / (6 * h) + v / (12 * h * l));
  CHECK(r.model_flops == Approx(flops).epsilon(1e-12));
  CHECK(r.tflops_per_gpu == Approx(flops / r.step_time_s / 16 / 1e12));
  const double peak = run.scenario.cluster.node.device.peak_flops_per_s;
  CHECK(r.mfu == Approx(r.tflops_per_gpu * 1e12 / peak));
  // No recomputation and causal attention counted once instead of twice: less executed than the model has.
  CHECK(r.hfu < r.mfu);
}

TEST_CASE("Full recomputation executes one more forward pass of the layers") {
  const FinishedRun none(small_h100_scenario(R"({ "tp": 8, "dp": 2, "recompute": "none" })"));
  const FinishedRun full(small_h100_scenario(R"({ "tp": 8, "dp": 2, "recompute": "full" })"));
  CHECK(full.report.model_flops == none.report.model_flops);
  // Weights: 24 h² FLOPs per token and layer; causal attention 2·s·h.
  const double h = 1024, l = 8, s = 1024;
  const double forward = 32 * s * l * (24 * h * h + 2 * s * h);
  CHECK(full.report.executed_flops - none.report.executed_flops == Approx(forward).epsilon(1e-9));
}

TEST_CASE("The verdict compares the peak with the device's memory and the stated error") {
  Scenario s = one_second_scenario(1, 1, 1);
  s.cluster.node.device.framework_bytes = 1000;
  s.cluster.node.device.memory_error = 0.1;
  const double peak = static_cast<double>(FinishedRun(s).report.memory.peak_bytes);
  const auto verdict = [&](double memory) {
    s.cluster.node.device.memory_bytes = memory;
    return FinishedRun(s).report.memory.verdict;
  };
  CHECK(verdict(peak * 1.2) == Verdict::fits);
  CHECK(verdict(peak * 1.05) == Verdict::tight);
  CHECK(verdict(peak) == Verdict::tight);
  CHECK(verdict(peak - 1) == Verdict::out_of_memory);
}

TEST_CASE("The categories and the framework's constant add up to the peak") {
  const FinishedRun run(small_h100_scenario(R"({ "tp": 2, "pp": 4, "dp": 2, "zero": 1 })"));
  const MemoryReport& m = run.report.memory;
  std::int64_t sum = m.framework_bytes;
  for (const std::int64_t bytes : m.by_category) sum += bytes;
  CHECK(sum == m.peak_bytes);
  CHECK(m.headroom_bytes() == m.device_bytes - m.peak_bytes);
  std::int64_t largest = 0;
  for (const StageReport& stage : run.report.stages) largest = std::max(largest, stage.peak_memory_bytes);
  CHECK(largest == m.peak_bytes);
}

TEST_CASE("Forward passes follow each other through the pipeline, the latency is that of the first") {
  // Eight stages of 1 s and one micro-batch: it takes 8 s, and the next one ends 1 s behind it.
  Scenario scenario = one_second_scenario(8, 1, 1);
  scenario.pass = Pass::forward;
  const FinishedRun run(scenario);
  CHECK(run.report.step_time_s == Approx(1).epsilon(1e-12));
  CHECK(run.report.latency_s == Approx(8).epsilon(1e-12));
  CHECK_FALSE(run.report.bubble_over_ideal_closed_form.has_value());
  const std::string page = report_page(run.view(), run.report);
  CHECK(page.find("\n  latency                          8 s ") != std::string::npos);
  CHECK(page.find("closed form") == std::string::npos);
}

TEST_CASE("A published value that is far off is a factor, not hundreds of digits") {
  const FinishedRun run(small_h100_scenario(R"({ "tp": 8, "dp": 2 })",
                                            R"(, "published": { "step_time_s": 1e-300, "source": "a paper" })"));
  const std::string page = report_page(run.view(), run.report);
  CHECK(page.find(" times)\n") != std::string::npos);
}

TEST_CASE("A published value stands beside ours") {
  const FinishedRun run(
      small_h100_scenario(R"({ "tp": 8, "dp": 2 })", R"(, "published": { "step_time_s": 0.5, "source": "a paper" })"));
  const std::string json = json_of(run);
  CHECK(json.find("\"source\": \"a paper\"") != std::string::npos);
  CHECK(json.find("\"relative_error\": {\n      \"step_time_s\": ") != std::string::npos);
  const std::string page = report_page(run.view(), run.report);
  CHECK(page.find("published 500 ms (") != std::string::npos);
  CHECK(page.find("published: a paper") != std::string::npos);
}

TEST_CASE("The page shows every published value, a zero too, and those without a line of their own at its end") {
  const FinishedRun run(small_h100_scenario(
      R"({ "tp": 8, "dp": 2 })",
      R"(, "published": { "mfu": 0.5, "bubble_fraction": 0, "exposed_comm_fraction": 0.25, "peak_memory_bytes": 2e10,
           "source": "a paper" })"));
  const std::string page = report_page(run.view(), run.report);
  const std::string end = page.substr(page.find("\npublished: a paper\n"));
  CHECK(page.find("published 50.0 % (") < page.find("\npublished: a paper\n"));
  CHECK(end.find("\n  bubble                         0.0 %   published 0.0 %\n") != std::string::npos);
  CHECK(end.find("published 25.0 % (") != std::string::npos);
  CHECK(end.find("GB   published 20.00 GB (") != std::string::npos);
  CHECK(end.find("MFU") == std::string::npos);
}

TEST_CASE("With links that are shared, the page lists the busiest, those that carry alike as one") {
  // One node, one tensor group of 8 and two of pipeline: every GPU sends and receives the same bytes.
  const FinishedRun run(small_h100_scenario(R"({ "tp": 8, "dp": 2 })"), false, Executor::simgrid);
  const std::string page = report_page(run.view(), run.report);
  CHECK(page.find("\n  busiest links ") != std::string::npos);
  CHECK(page.find("and 31 like it") != std::string::npos);
  const FinishedRun alone(small_h100_scenario(R"({ "tp": 8, "dp": 2 })"));
  CHECK(report_page(alone.view(), alone.report).find("busiest links") == std::string::npos);
}

TEST_CASE("Tables align columns by what a terminal shows") {
  CHECK(aligned_table({{"a", "1"}, {"long", "1000"}, {"×", "2"}}, 1) == "a        1\nlong  1000\n×        2\n");
  CHECK(seconds_text(12.345678) == "12.35 s");
  CHECK(seconds_text(0.012345) == "12.35 ms");
  CHECK(seconds_text(1.5e-6) == "1.5 us");
  CHECK(seconds_text(0) == "0 s");
  CHECK(percent_text(0.1234) == "12.3 %");
}
