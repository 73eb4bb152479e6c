// Strategies at one number of devices: what their programs execute, against the closed forms of the TSP paper
// (arXiv 2604.26294), and whether the parts of every row add up.
#include "sim/search/analysis.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <numeric>
#include <sstream>

#include "sim/base/error.h"
#include "sim/search/strategy_sweep.h"
#include "tests/report/finished_run.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

constexpr std::int64_t h = 256, heads = 32, f = 4, bytes_per_element = 2;

struct Model {
  int devices = 8;
  std::int64_t sequence = 512, kv_heads = heads, micro = 1, global = 1;
  std::string layout, more;  // keys of the layout, each behind a comma; keys of the scenario
};

// Gated, without biases: (2 + 2/g + 3·4)·h² weights per layer.
std::string text_of(const Model& m) {
  return fmt::format(R"({{
    "cluster": {{ "node": {{ "base": "mi300x-8", "gpus": {} }}, "nodes": 1 }},
    "model": {{ "language": {{ "hidden": {}, "layers": 2, "heads": {}, "kv_heads": {}, "ffn": {}, "vocabulary": 1000,
                               "sequence": {}, "activation": "swiglu", "norm": "rms-norm", "biases": "none",
                               "position": "rope", "tied_embeddings": false }} }},
    "batch": {{ "global": {}, "micro": {} }},
    "layout": {{ "language": {{ "tp": {}{} }} }}{} }})",
                     m.devices, h, heads, m.kv_heads, f * h, m.sequence, m.global, m.micro, m.devices, m.layout,
                     m.more);
}

StrategyFigures simulate(const std::string& text, const Strategy& strategy) {
  const FinishedRun run(parse_scenario(text, "a.json", strategy.change), true);
  return figures_of(run.view(), run.report);
}

std::vector<StrategyRow> rows_of(const std::string& text, const StrategySettings& settings = {}) {
  std::vector<StrategyRow> rows;
  for (const Strategy& strategy : strategies(parse_scenario(text, "a.json"), settings)) {
    rows.push_back(analyze_strategy(strategy, [&](const Strategy& s) { return simulate(text, s); }));
  }
  return rows;
}

const StrategyRow& row_of(const std::vector<StrategyRow>& rows, StrategyKind kind) {
  for (const StrategyRow& row : rows) {
    if (row.strategy.kind == kind) return row;
  }
  throw std::logic_error("no such strategy");
}

// The bytes that the forward of a layer sends to a device, by section 5 of the reference, in whole numbers.
std::int64_t forward_bytes(const Strategy& strategy, const Model& m) {
  const std::int64_t x = m.micro * m.sequence * h * bytes_per_element;
  const std::int64_t kv = 2 * x * m.kv_heads / heads;  // 2X/g
  const std::int64_t t = strategy.tensor, s = strategy.sequence, d = m.devices;
  switch (strategy.kind) {
    case StrategyKind::dp: return 0;
    case StrategyKind::tp: return 4 * x * (d - 1) / d;
    case StrategyKind::sp: return kv * (d - 1) / d;
    case StrategyKind::tp_sp: return 4 * x / s * (t - 1) / t + kv / t * (s - 1) / s;
    case StrategyKind::tsp: {
      const std::int64_t weights = (2 + 3 * f) * h * h + 2 * h * h * m.kv_heads / heads;
      return (weights * bytes_per_element + kv) * (d - 1) / d;
    }
  }
  throw std::logic_error("no such strategy");
}

void check_forward(const Model& m) {
  const std::vector<StrategyRow> rows = rows_of(text_of(m));
  for (const StrategyRow& row : rows) {
    INFO(row.strategy.name << ", D " << m.devices << ", S " << m.sequence << ", kv heads " << m.kv_heads << ", B "
                           << m.micro);
    REQUIRE(row.figures);
    const auto expected = static_cast<double>(forward_bytes(row.strategy, m));
    CHECK(row.figures->layer.forward_bytes == expected);
    CHECK(row.figures->layer_form.forward_bytes == expected);
    CHECK(row.figures->layer.forward_flops == Approx(row.figures->layer_form.forward_flops).epsilon(1e-12));
  }
}

void check_backward(const Model& m) {
  for (const StrategyRow& row : rows_of(text_of(m))) {
    INFO(row.strategy.name << " " << row.strategy.layout << m.layout << m.more);
    REQUIRE(row.figures);
    CHECK(row.figures->layer.forward_bytes == row.figures->layer_form.forward_bytes);
    CHECK(row.figures->layer.backward_bytes == row.figures->layer_form.backward_bytes);
    CHECK(row.figures->layer.backward_flops == Approx(row.figures->layer_form.backward_flops).epsilon(1e-12));
  }
}

double forward_of(StrategyKind kind, const Model& m) {
  return row_of(rows_of(text_of(m)), kind).figures->layer.forward_bytes;
}

}  // namespace

TEST_CASE("The forward of a layer sends what the closed forms say, to the byte") {
  for (const int devices : {2, 4, 8}) {
    for (const std::int64_t kv_heads : {32, 16, 8}) {  // g = 1, 2, 4
      for (const std::int64_t sequence : {512, 2048, 6144}) check_forward({devices, sequence, kv_heads, 1, 1, "", ""});
    }
  }
  check_forward({8, 1024, 16, 3, 6, "", ""});
  check_forward({4, 1024, 8, 2, 2, "", R"(, "pass": "forward")"});
}

TEST_CASE("Pipeline stages and replicas leave the bytes of a layer as they are") {
  Model m{4, 1024, 16, 1, 4, R"(, "pp": 2, "dp": 2)", ""};
  std::string text = text_of(m);
  const std::string gpus = R"("gpus": 4 }, "nodes": 1)";
  text.replace(text.find(gpus), gpus.size(), R"("gpus": 8 }, "nodes": 2)");
  for (const StrategyRow& row : rows_of(text)) {
    INFO(row.strategy.name);
    REQUIRE(row.figures);
    CHECK(row.figures->layer.forward_bytes == static_cast<double>(forward_bytes(row.strategy, m)));
    CHECK(row.figures->traffic.of(Purpose::pipeline) > 0);
  }
}

TEST_CASE("The backward of a layer sends what the closed forms say, whatever is computed again") {
  for (const char* recompute : {"none", "selective", "full"}) {
    const std::string again = fmt::format(R"(, "recompute": "{}")", recompute);
    check_backward({8, 512, 32, 1, 1, again, ""});
    check_backward({4, 512, 8, 2, 4, again, R"(, "precision": { "main_gradients": "bf16" })"});
    check_backward({4, 512, 16, 1, 1, again + R"(, "sequence_parallel": true)", ""});
  }
}

TEST_CASE("Unfused attention computes all pairs") {
  for (const char* recompute : {"none", "selective", "full"}) {
    std::string text = text_of({4, 512, 16, 1, 1, fmt::format(R"(, "recompute": "{}")", recompute), ""});
    const std::string position = R"("position": "rope")";
    text.replace(text.find(position), position.size(), position + R"(, "fused_attention": false)");
    for (const Strategy& strategy : strategies(parse_scenario(text, "a.json"), {})) {
      if (strategy.kind != StrategyKind::dp && strategy.kind != StrategyKind::tp) continue;
      INFO(strategy.name << " " << recompute);
      const StrategyFigures figures = simulate(text, strategy);
      CHECK(figures.layer.forward_flops == Approx(figures.layer_form.forward_flops).epsilon(1e-12));
      CHECK(figures.layer.backward_flops == Approx(figures.layer_form.backward_flops).epsilon(1e-12));
    }
  }
}

TEST_CASE("Every kind of context parallelism sends what its closed form says") {
  for (const char* cp : {R"("kind": "ring")", R"("kind": "all-gather")", R"("kind": "ulysses")",
                         R"("kind": "ulysses-ring")", R"("kind": "all-gather", "regather": false)"}) {
    Model m{4, 512, 16, 1, 1, fmt::format(R"(, "cp": {{ "degree": 2, {} }})", cp), ""};
    std::string text = text_of(m);
    const std::string tp = R"("tp": 4)";
    text.replace(text.find(tp), tp.size(), R"("tp": 2)");
    for (const StrategyRow& row : rows_of(text)) {
      INFO(row.strategy.name << " " << row.strategy.layout);
      REQUIRE(row.figures);
      CHECK(row.figures->layer.forward_bytes == row.figures->layer_form.forward_bytes);
      CHECK(row.figures->layer.backward_bytes == row.figures->layer_form.backward_bytes);
    }
  }
}

TEST_CASE("Keys and values that full recomputation keeps are not sent again") {
  Model m{4, 512, 16,
          1, 1,   R"(, "cp": { "degree": 2, "kind": "all-gather" }, "recompute": "full", "keep": "keys-values")",
          ""};
  std::string text = text_of(m);
  const std::string tp = R"("tp": 4)";
  text.replace(text.find(tp), tp.size(), R"("tp": 2)");
  for (const StrategyRow& row : rows_of(text)) {
    INFO(row.strategy.name << " " << row.strategy.layout);
    REQUIRE(row.figures);
    CHECK(row.figures->layer.backward_bytes == row.figures->layer_form.backward_bytes);
  }
}

TEST_CASE("TSP sends less than TP where the tokens exceed 8 h, for one key-value head per query head and ffn 4 h") {
  for (const std::int64_t micro : {1, 2}) {
    const std::int64_t tie = 8 * h / micro;
    const auto compare = [&](std::int64_t sequence) {
      const Model m{8, sequence, heads, micro, micro, "", ""};
      return forward_of(StrategyKind::tsp, m) - forward_of(StrategyKind::tp, m);
    };
    CHECK(compare(tie) == 0);
    CHECK(compare(tie - 16) > 0);  // the next sequences that 2 · 8 zigzag segments divide
    CHECK(compare(tie + 16) < 0);
  }
}

TEST_CASE("The parts of memory, traffic and exposed time add up") {
  for (const char* layout : {"", R"(, "recompute": "full")", R"(, "sequence_parallel": true)"}) {
    const std::vector<StrategyRow> rows = rows_of(text_of({8, 1024, 16, 1, 2, layout, ""}));
    for (const StrategyRow& row : rows) {
      INFO(row.strategy.name << layout);
      REQUIRE(row.figures);
      const StrategyFigures& figures = *row.figures;
      const BytesByCategory& parts = figures.memory.by_category;
      CHECK(std::accumulate(parts.begin(), parts.end(), figures.memory.framework_bytes) == figures.memory.peak_bytes);
      double by_kind = 0, by_purpose = 0, exposed = 0;
      for (const OpKind kind : all_transfer_kinds) by_kind += figures.traffic.of(kind);
      for (const Purpose purpose : all_purposes) by_purpose += figures.traffic.of(purpose);
      for (const double seconds : figures.exposed_s) exposed += seconds;
      CHECK(by_kind == figures.traffic.total());
      CHECK(by_purpose == figures.traffic.total());
      CHECK(exposed == figures.exposed_total_s());
      CHECK(figures.traffic.total() > 0);
    }
    // All strategies do the same work on the tokens of the step.
    const double per_token = rows[0].figures->layer.forward_flops / rows[0].figures->tokens();
    CHECK(per_token > 0);
  }
}

TEST_CASE("The exposed time of a strategy is that of the report") {
  const std::string text = text_of({8, 1024, 32, 1, 1, "", ""});
  for (const Strategy& strategy : strategies(parse_scenario(text, "a.json"), {})) {
    INFO(strategy.name);
    const FinishedRun run(parse_scenario(text, "a.json", strategy.change), true);
    CHECK(figures_of(run.view(), run.report).exposed_total_s() ==
          Approx(run.report.mean.exposed_total_s()).epsilon(1e-9));
  }
}

TEST_CASE("The memory columns of the page add up to the printed total") {
  const std::string text = text_of({8, 4096, 32, 1, 1, "", ""});
  const std::string page = analysis_page(parse_scenario(text, "a.json"), 8, rows_of(text));
  std::istringstream lines(page.substr(page.find("memory at the peak")));
  std::string line;
  std::getline(lines, line);
  int rows = 0;
  while (std::getline(lines, line) && !line.empty()) {
    std::istringstream words(line.substr(line.find("  ", 3)));  // behind the name
    std::vector<double> numbers;
    for (double number = 0; words >> number;) numbers.push_back(number);
    REQUIRE(numbers.size() > 3);
    const double total = numbers[numbers.size() - 2];
    CHECK(std::accumulate(numbers.begin(), numbers.end() - 2, 0.0) == Approx(total).margin(1e-9));
    ++rows;
  }
  CHECK(rows == 6);
}

TEST_CASE("Strategies are every factorisation of the devices, by the paper's names") {
  const Scenario scenario = parse_scenario(text_of({8, 512, 32, 1, 1, R"(, "sequence_parallel": true)", ""}), "a.json");
  std::vector<std::string> names;
  for (const Strategy& s : strategies(scenario, {})) names.push_back(s.name + "  " + s.layout);
  CHECK(names == std::vector<std::string>{"DP  dp 8", "TP  tp 8 sequence-parallel", "SP  cp 8 all-gather",
                                          "TP+SP (T=4, Σ=2)  tp 4 sequence-parallel × cp 2 all-gather",
                                          "TP+SP (T=2, Σ=4)  tp 2 sequence-parallel × cp 4 all-gather", "TSP  tsp 8"});
}

TEST_CASE("Of DP every rank has a sample, and the row says what was done") {
  const std::vector<StrategyRow> grown = rows_of(text_of({8, 512, 32, 1, 3, "", ""}));
  const StrategyRow& dp = row_of(grown, StrategyKind::dp);
  REQUIRE(dp.figures);
  CHECK(dp.figures->global_batch == 24);  // the smallest multiple of 3 and of 8
  CHECK(dp.strategy.notes ==
        std::vector<std::string>{"global batch 24 in the place of 3, so that every rank has a sample"});
  CHECK(row_of(grown, StrategyKind::tp).figures->global_batch == 3);
  const std::vector<StrategyRow> enough = rows_of(text_of({8, 512, 32, 1, 16, "", ""}));
  CHECK(row_of(enough, StrategyKind::dp).figures->global_batch == 16);
  CHECK(row_of(enough, StrategyKind::dp).strategy.notes.empty());
}

TEST_CASE("Of an interleaved schedule every rank of DP has as many micro-batches as the schedule takes") {
  std::string text = text_of({8, 512, 32, 1, 2, R"(, "pp": 2, "vpp": 2)", ""});
  const std::string nodes = R"("nodes": 1)", layers = R"("layers": 2)";
  text.replace(text.find(nodes), nodes.size(), R"("nodes": 2)");
  text.replace(text.find(layers), layers.size(), R"("layers": 4)");
  const StrategyRow dp = row_of(rows_of(text), StrategyKind::dp);
  REQUIRE(dp.figures);
  CHECK(dp.figures->micro_batches == 2);
  CHECK(dp.figures->global_batch == 16);
}

TEST_CASE("A strategy that is no possible scenario is named with the reason") {
  const std::vector<StrategyRow> rows = rows_of(text_of({4, 512, 8, 1, 1, "", ""}), {16, {}, {}});
  const StrategyRow& tp = row_of(rows, StrategyKind::tp);
  CHECK_FALSE(tp.figures);
  CHECK(reason_of(tp).rfind("/layout/language/tp: 16 does not divide the number of key-value heads, 8", 0) == 0);
  CHECK(row_of(rows, StrategyKind::sp).figures);
  CHECK(reason_of(row_of(rows, StrategyKind::tsp)).rfind("/layout/language/tsp: 16 does not divide", 0) == 0);
  const std::string page = analysis_page(parse_scenario(text_of({4, 512, 8, 1, 1, "", ""}), "a.json"), 16, rows);
  CHECK(page.find("TP is not possible: /layout/language/tp: 16 does not divide") != std::string::npos);
}

TEST_CASE("Other devices bring a cluster of their size, or are refused") {
  const Scenario eight = parse_scenario(text_of({8, 512, 32, 1, 1, "", ""}), "a.json");
  for (const auto& [devices, ranks] : {std::pair{2, 2}, {4, 4}, {16, 16}}) {
    const std::vector<StrategyRow> rows = rows_of(text_of({8, 512, 32, 1, 1, "", ""}), {devices, {}, {}});
    for (const StrategyRow& row : rows) {
      INFO(row.strategy.name << " on " << devices);
      REQUIRE(row.figures);
      CHECK(row.figures->ranks == ranks);
    }
  }
  CHECK_THROWS_WITH(strategies(eight, {12, {}, {}}), Catch::Contains("12 ranks are no whole nodes of 8 GPUs"));
  const Scenario one = parse_scenario(text_of({1, 512, 32, 1, 1, "", ""}), "a.json");
  CHECK_THROWS_WITH(strategies(one, {}), Catch::Contains("tp · cp · tsp = 1"));
}

TEST_CASE("A micro-batch that is swept keeps the number of micro-batches") {
  const std::vector<StrategyRow> rows = rows_of(text_of({8, 512, 32, 1, 2, "", ""}), {0, {}, 4});
  for (const StrategyRow& row : rows) {
    INFO(row.strategy.name);
    REQUIRE(row.figures);
    CHECK(row.figures->micro_batch == 4);
    if (row.strategy.kind != StrategyKind::dp) CHECK(row.figures->micro_batches == 2);
  }
  CHECK(row_of(rows, StrategyKind::dp).figures->global_batch == 32);
}

namespace {

// Two strategies whose forward bytes are c·xᵖ at the swept values.
StrategySweep power_laws(const std::vector<std::int64_t>& values, double c0, double p0, double c1, double p1) {
  StrategySweep sweep;
  sweep.values = values;
  for (const std::int64_t value : values) {
    std::vector<StrategyRow>& rows = sweep.rows.emplace_back(2);
    rows[0].strategy.name = "first", rows[1].strategy.name = "second";
    rows[0].figures.emplace().layer.forward_bytes = c0 * std::pow(static_cast<double>(value), p0);
    rows[1].figures.emplace().layer.forward_bytes = c1 * std::pow(static_cast<double>(value), p1);
  }
  return sweep;
}

}  // namespace

TEST_CASE("A crossover lies where two power laws are equal, also between the swept values") {
  // x² = 300 x at x = 300.
  const auto between = crossovers(power_laws({100, 200, 400}, 1, 2, 300, 1), SweepMetric::forward_bytes);
  REQUIRE(between.size() == 1);
  CHECK(between[0].at == Approx(300).epsilon(1e-9));
  CHECK(between[0].metric == Approx(90000).epsilon(1e-9));
  CHECK(between[0].rising == 0);
  CHECK(between[0].falling == 1);
  const auto on_a_value = crossovers(power_laws({100, 300, 400}, 1, 2, 300, 1), SweepMetric::forward_bytes);
  REQUIRE(on_a_value.size() == 1);
  CHECK(on_a_value[0].at == 300);
  CHECK(crossovers(power_laws({300, 400}, 1, 2, 300, 1), SweepMetric::forward_bytes).empty());
  CHECK(crossovers(power_laws({100, 400}, 1, 2, 1, 2), SweepMetric::forward_bytes).empty());
}

TEST_CASE("The crossover of TSP and TP over sequences is found on their executed programs") {
  StrategySweep sweep;
  sweep.values = {512, 1024, 2048, 4096};
  const std::string text = text_of({8, 512, heads, 1, 1, "", ""});
  for (const std::int64_t value : sweep.values) sweep.rows.push_back(rows_of(text, {0, value, {}}));
  bool found = false;
  for (const Crossover& c : crossovers(sweep, SweepMetric::forward_bytes)) {
    if (sweep.rows[0][c.falling].strategy.kind != StrategyKind::tsp) continue;
    if (sweep.rows[0][c.rising].strategy.kind != StrategyKind::tp) continue;
    found = true;
    CHECK(c.at == static_cast<double>(8 * h));
  }
  CHECK(found);
}
