#include "sim/search/suggestions.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>

#include "sim/base/error.h"
#include "sim/scenario/reader.h"
#include "tests/report/finished_run.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

// The parameters of the model below: per layer 12 h² + 13 h, tied embedding V h, positions s h, last norm 2 h.
constexpr std::int64_t h = 1024, layers = 4, s = 1024, heads = 8, vocabulary = 65536;
constexpr std::int64_t parameters = layers * (12 * h * h + 13 * h) + vocabulary * h + s * h + 2 * h;
// The peak of a micro-batch of one sequence lies in the loss: logits 2 bytes and exponentials 4; hidden states before
// and behind each layer and behind the last norm; 36 bytes per token of token ids and labels (int64), maximum, two sums
// and the last norm's mean and deviation (fp32); the loss.
constexpr std::int64_t loss = 6 * s * vocabulary + (layers + 2) * 2 * s * h + 36 * s + 4;
// What a layer keeps besides its input: 30 bytes per element of the hidden state (norms 4, queries, keys and values 6,
// context 2, residual 2, fc1 8, activation 8), the attention's log-sum-exp, mean and deviation of two norms.
constexpr std::int64_t layer = 30 * s * h + 4 * heads * s + 16 * s;
constexpr std::int64_t framework = 3'000'000'000;
// 18 bytes per parameter: 2 itself, 4 its main gradient, 12 main parameter and two moments.
constexpr std::int64_t peak = 18 * parameters + loss + layers * layer + framework;
constexpr std::int64_t peak_recompute_full = peak - layers * layer;
constexpr std::int64_t peak_recompute_selective = peak - layers * 4 * heads * s;  // attention keeps nothing of its own
constexpr std::int64_t peak_zero = peak - 9 * parameters;                         // three quarters of the 12 bytes

// On four H100 of so much memory, which hold four replicas.
std::string text_with(std::int64_t memory_bytes) {
  return fmt::format(R"({{
    "cluster": {{ "node": {{ "base": "hgx-h100", "gpus": 4,
                             "device": {{ "base": "h100-sxm", "memory": "{} B" }} }}, "nodes": 1 }},
    "model": {{ "language": {{ "hidden": 1024, "layers": 4, "heads": 8, "vocabulary": 65536, "sequence": 1024 }} }},
    "batch": {{ "global": 4 }},
    "layout": {{ "language": {{ "dp": 4 }} }} }})",
                     memory_bytes);
}

Report simulate(const std::string& text, const Change& change) {
  return FinishedRun(parse_scenario(text, "small.json", change), true).report;
}

Suggestions suggest_for(const std::string& text) {
  SuggestionSettings settings;
  settings.simulate = [&](const Change& change) -> std::optional<Report> {
    try {
      return simulate(text, change);
    } catch (const InputError&) {
      return std::nullopt;
    }
  };
  return suggest(parse_scenario(text, "small.json"), settings);
}

const TriedChange* find(const std::vector<TriedChange>& changes, const std::string& option) {
  for (const TriedChange& tried : changes) {
    if (option_text(tried.change) == option) return &tried;
  }
  return nullptr;
}

std::string json_of(const Suggestions& suggestions) {
  JsonText out;
  out.object();
  write_suggestions(out, suggestions);
  out.end();
  return out.take();
}

// The report of a step of so many seconds that leaves so many bytes of its device.
Report report_of(double step_time_s, std::int64_t headroom) {
  Report report;
  report.step_time_s = step_time_s;
  report.samples_per_s = 4 / step_time_s;
  report.tokens_per_s = 400 / step_time_s;
  report.memory.device_bytes = 10'000'000'000;
  report.memory.peak_bytes = report.memory.device_bytes - headroom;
  report.memory.verdict = headroom < 0 ? Verdict::out_of_memory : Verdict::fits;
  return report;
}

// Answers of simulations by option; what has none is not possible.
Suggestions suggest_from(const Scenario& scenario, const std::map<std::string, Report>& answers) {
  SuggestionSettings settings;
  settings.simulate = [&](const Change& change) -> std::optional<Report> {
    const auto found = answers.find(option_text(change));
    return found == answers.end() ? std::nullopt : std::optional(found->second);
  };
  return suggest(scenario, settings);
}

}  // namespace

TEST_CASE("ZeRO-1 and full recomputation are suggested where the memory that they save is what is missing") {
  REQUIRE(simulate(text_with(peak), {}).memory.peak_bytes == peak);
  // One byte less than full recomputation needs: ZeRO-1 alone of the two makes it fit; one more, and both do.
  const Suggestions below = suggest_for(text_with(peak_recompute_full - 1));
  const TriedChange* zero = find(below.fitting, "--set /layout/language/zero=1");
  REQUIRE(zero);
  CHECK(zero->peak_bytes == peak_zero);
  CHECK(zero->headroom_bytes == peak_recompute_full - 1 - peak_zero);
  CHECK(zero->verdict == Verdict::fits);
  const TriedChange* full = find(below.too_large, "--set /layout/language/recompute=full");
  REQUIRE(full);
  CHECK(full->peak_bytes == peak_recompute_full);
  CHECK(full->headroom_bytes == -1);
  const TriedChange* selective = find(below.too_large, "--set /layout/language/recompute=selective");
  REQUIRE(selective);
  CHECK(selective->peak_bytes == peak_recompute_selective);
  // The micro-batch is 1 already, and tp and cp are 1: nothing to halve.
  CHECK(below.too_large.size() == 2);
  CHECK(below.fitting.size() + static_cast<std::size_t>(below.impossible) == 5);  // zero, cp, tsp, tp and pp

  const Suggestions above = suggest_for(text_with(peak_recompute_full));
  full = find(above.fitting, "--set /layout/language/recompute=full");
  REQUIRE(full);
  CHECK(full->verdict == Verdict::tight);
  CHECK(full->headroom_bytes == 0);
}

TEST_CASE("A suggestion is what a run with its options gives") {
  const std::string text = text_with(peak_recompute_full);
  const Suggestions suggestions = suggest_for(text);
  REQUIRE(suggestions.fitting.size() >= 4);  // zero, recompute, tp, pp
  for (const TriedChange& tried : suggestions.fitting) {
    INFO(option_text(tried.change));
    const Report report = simulate(text, tried.change);
    CHECK(report.step_time_s == tried.step_time_s);
    CHECK(report.tokens_per_s == tried.tokens_per_s);
    CHECK(report.memory.peak_bytes == tried.peak_bytes);
  }
}

TEST_CASE("What fits is in order of step time, what does not in order of what is missing, the rest is counted") {
  DenseOptions layout;
  layout.dp = 4, layout.micro = 2;
  const Suggestions suggestions = suggest_from(
      dense_scenario(layout), {{"--set /batch/micro=1", report_of(3, 1'000'000'000)},
                               {"--set /layout/language/recompute=full", report_of(2, 500'000'000)},
                               {"--set /layout/language/recompute=selective", report_of(1, -2'000'000'000)},
                               {"--set /layout/language/zero=1", report_of(4, -1'000'000'000)}});
  CHECK(suggestions.impossible == 4);  // cp, tsp, tp and pp doubled
  CHECK(suggestions.count() == 8);
  CHECK(suggestions_text(suggestions) == R"(
single changes that make it fit (analytic)
  change                                 step time  tokens/s  peak memory  headroom  verdict
  --set /layout/language/recompute=full        2 s       200      9.50 GB   0.50 GB     fits
  --set /batch/micro=1                         3 s       133      9.00 GB   1.00 GB     fits
  of 8 single changes: 2 fit, 2 too large, 4 not possible
)");
  CHECK(
      json_of(suggestions) ==
      R"({"suggestions":[)"
      R"({"set":["/layout/language/recompute=full"],"step_time_s":2,"samples_per_s":2,"tokens_per_s":200,)"
      R"("peak_memory_bytes":9500000000,"headroom_bytes":500000000,"verdict":"fits"},)"
      R"({"set":["/batch/micro=1"],"step_time_s":3,"samples_per_s":1.3333333333333333,)"
      R"("tokens_per_s":133.33333333333334,"peak_memory_bytes":9000000000,"headroom_bytes":1000000000,"verdict":"fits"}],)"
      R"("insufficient_changes":[)"
      R"({"set":["/layout/language/zero=1"],"step_time_s":4,"samples_per_s":1,"tokens_per_s":100,)"
      R"("peak_memory_bytes":11000000000,"headroom_bytes":-1000000000,"verdict":"out of memory"},)"
      R"({"set":["/layout/language/recompute=selective"],"step_time_s":1,"samples_per_s":4,"tokens_per_s":400,)"
      R"("peak_memory_bytes":12000000000,"headroom_bytes":-2000000000,"verdict":"out of memory"}],)"
      R"("impossible_changes":4})");
}

TEST_CASE("Where nothing fits, all that was tried is listed, the closest first") {
  DenseOptions layout;
  layout.dp = 4, layout.zero = 1;
  const Suggestions suggestions = suggest_from(
      dense_scenario(layout), {{"--set /layout/language/recompute=selective", report_of(1, -2'000'000'000)},
                               {"--set /layout/language/recompute=full", report_of(2, -1'000'000'000)}});
  CHECK(suggestions_text(suggestions) == R"(
no single change makes it fit; the closest first (analytic)
  change                                      step time  tokens/s  peak memory  headroom        verdict
  --set /layout/language/recompute=full             2 s       200     11.00 GB  -1.00 GB  out of memory
  --set /layout/language/recompute=selective        1 s       400     12.00 GB  -2.00 GB  out of memory
  of 6 single changes: 0 fit, 2 too large, 4 not possible
)");
  CHECK(suggestions_text(suggest_from(dense_scenario(layout), {})) == R"(
no single change makes it fit; the closest first (analytic)
  of 6 single changes: 0 fit, 0 too large, 6 not possible
)");
}

TEST_CASE("Equal steps keep the order in which they were tried") {
  DenseOptions layout;
  layout.dp = 4;
  const Suggestions suggestions = suggest_from(
      dense_scenario(layout),
      {{"--set /layout/language/zero=1", report_of(1, 1)}, {"--set /layout/language/recompute=full", report_of(1, 2)}});
  REQUIRE(suggestions.fitting.size() == 2);
  CHECK(option_text(suggestions.fitting[0].change) == "--set /layout/language/recompute=full");
}

TEST_CASE("An interrupt ends the search for changes, whose progress counts them") {
  DenseOptions layout;
  layout.dp = 4, layout.zero = 1, layout.recompute = Recompute::selective;
  std::vector<std::string> progress;
  SuggestionSettings settings;
  settings.on_progress = [&](std::size_t done, std::size_t all, const Change& change) {
    progress.push_back(fmt::format("{}/{} {}", done, all, option_text(change)));
  };
  settings.simulate = [&](const Change&) -> std::optional<Report> {
    if (progress.size() == 2) throw Interrupted();
    return std::nullopt;
  };
  CHECK_THROWS_AS(suggest(dense_scenario(layout), settings), Interrupted);
  CHECK(progress == std::vector<std::string>{"0/5 --set /layout/language/recompute=full",
                                             "1/5 --set /layout/language/cp=2 --set /layout/language/dp=2"});
}
