// What a scenario resolves to: defaults, derived values, overrides, entries changed in place.
#include "sim/scenario/reader.h"

#include <catch2/catch.hpp>

#include "sim/base/error.h"
#include "sim/base/sha256.h"
#include "tests/scenario/test_library.h"

using namespace meshweave;

namespace {

Scenario read(const std::string& text, const std::vector<Override>& overrides = {}) {
  return parse_scenario(text, "good.json", overrides);
}

// The good scenario with overrides.
Scenario with(const std::vector<Override>& overrides) { return read(good_scenario, overrides); }

std::string error_with(const std::vector<Override>& overrides) {
  try {
    with(overrides);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("What a scenario leaves out has a default") {
  const TestLibrary library;
  const Scenario s = read(good_scenario);
  CHECK(s.name == "good");
  CHECK(s.file == "good.json");
  CHECK(s.cluster.ranks() == 16);
  CHECK(s.cluster.fabric.name == "rail-400g");
  CHECK(s.model[0].name == "language");
  CHECK(s.batch.micro == 1);
  CHECK(s.micro_batches(0) == 8);  // 32 / (1 · dp 4)
  CHECK(s.pass == Pass::train);
  CHECK(s.schedule.kind == ScheduleKind::one_f_one_b);
  CHECK(s.precision.activations == DType::bf16);
  CHECK(s.host.issue_s == Approx(5e-6));
  CHECK(s.optimizer.bucket_parameters == 40'000'000);
  CHECK(s.cost.kind == CostKind::model);
  CHECK(s.seed == 1);
  CHECK_FALSE(s.published);
  const ModuleLayout& layout = s.layout_by_module[0];
  CHECK(layout.rank_count == 16);
  CHECK(layout.stages == std::vector<int>{12, 12});
}

TEST_CASE("dp left out fills the ranks") {
  const TestLibrary library;
  const Scenario s = with({{"/layout/language", R"({ "tp": 4, "pp": 2 })"}});
  CHECK(s.layout_by_module[0].dp == 2);  // 16 / (4 · 2)
}

TEST_CASE("Shapes take what is missing from other fields") {
  const TestLibrary library;
  const TransformerShape gpt =
      with({{"/model/language/zoo", "small-gpt"}, {"/layout/language/pp", "1"}, {"/layout/language/dp", "8"}})
          .model[0]
          .shape;
  CHECK(gpt.zoo == "small-gpt");
  CHECK(gpt.kv_heads == 12);
  CHECK(gpt.head_dim == 64);
  CHECK(gpt.ffn == 4 * 768);
  CHECK(gpt.sequence == 1024);
}

TEST_CASE("Stages are even, counted with embedding and loss, or listed") {
  const TestLibrary library;
  const auto stages = [](const std::string& layers, const std::string& given) {
    return with({{"/model/language/layers", layers},
                 {"/layout/language/pp", "4"},
                 {"/layout/language/dp", "2"},
                 {"/layout/language/stages", given}})
        .layout_by_module[0]
        .stages;
  };
  // (22 + 2) / 4 = 6 places per stage; embedding and loss take one each.
  CHECK(stages("22", R"({ "embedding": true, "loss": true })") == std::vector<int>{5, 6, 6, 5});
  CHECK(stages("23", R"({ "loss": true })") == std::vector<int>{6, 6, 6, 5});
  CHECK(stages("24", "{}") == std::vector<int>{6, 6, 6, 6});
  CHECK(stages("24", "[ 0, 10, 10, 4 ]") == std::vector<int>{0, 10, 10, 4});
}

TEST_CASE("Entries are changed in place or given by all of their fields") {
  const TestLibrary library;
  SECTION("a name becomes a base") {
    const Scenario s = with({{"/cluster/node/nic_bandwidth", "200 Gb/s"}, {"/cluster/node/device/memory", "40 GB"}});
    CHECK(s.cluster.node.name == "toy-8");
    CHECK(s.cluster.node.nic_bytes_per_s == 25e9);
    CHECK(s.cluster.node.link_bytes_per_s == 400e9);
    CHECK(s.cluster.node.device.memory_bytes == 40e9);
    CHECK(s.cluster.node.device.compute_units == 100);
  }
  SECTION("keys beside the zoo's name") {
    const TransformerShape shape =
        with({{"/model/language/dropout", "0.1"}, {"/model/language/sequence", "512"}}).model[0].shape;
    CHECK(shape.dropout == 0.1);
    CHECK(shape.sequence == 512);
    CHECK(shape.hidden == 1024);
  }
  SECTION("an object with a base in the zoo's place") {
    const TransformerShape shape =
        with({{"/model/language/zoo", R"({ "base": "small", "layers": 12 })"}}).model[0].shape;
    CHECK(shape.layers == 12);
    CHECK(shape.ffn == 4096);
  }
  SECTION("a shape alone") {
    const TransformerShape shape =
        with(
            {{"/model/language", R"({ "hidden": 512, "layers": 4, "heads": 8, "vocabulary": 1000, "sequence": 128 })"}})
            .model[0]
            .shape;
    CHECK(shape.zoo.empty());
    CHECK(shape.head_dim == 64);
    CHECK(shape.max_positions == 128);
  }
}

TEST_CASE("Overrides reach what the file leaves out") {
  const TestLibrary library;
  CHECK_FALSE(with({{"/overlap/grad_reduce", "false"}}).overlap.grad_reduce);
  CHECK(with({{"/precision/parameters", "fp16"}}).precision.activations == DType::fp16);
  CHECK(with({{"/batch/global", "64"}, {"/batch/global", "128"}}).batch.global == 128);
  CHECK(with({{"/name", "a name"}}).name == "a name");
}

TEST_CASE("An override below a plain value keeps what the value stands for") {
  const TestLibrary library;
  const Scenario ring =
      with({{"/layout/language/tp", "1"}, {"/layout/language/cp", "2"}, {"/layout/language/cp/kind", "all-gather"}});
  CHECK(ring.layout_by_module[0].cp.degree == 2);
  CHECK(ring.layout_by_module[0].cp.kind == ContextKind::all_gather);
  const Scenario folded =
      with({{"/layout/language/tp", "1"}, {"/layout/language/tsp", "2"}, {"/layout/language/tsp/prefetch", "0"}});
  CHECK(folded.layout_by_module[0].tsp.degree == 2);
  CHECK(folded.layout_by_module[0].tsp.prefetch == 0);
  CHECK(error_with({{"/layout/language/cp", "true"}}) ==
        "--set /layout/language/cp=true: error: /layout/language/cp: expected an object, or its \"degree\" alone (is "
        "true "
        "or false)\n");
}

TEST_CASE("Mistakes in overrides name the override") {
  const TestLibrary library;
  CHECK(error_with({{"/batch/global", "many"}}) ==
        "--set /batch/global=many: error: /batch/global: expected an integer (is a string)\n");
  CHECK(error_with({{"/batch/globl", "32"}}) ==
        "--set /batch/globl=32: error: /batch/globl: unknown key\n  hint: did you mean \"global\"?\n");
  CHECK(error_with({{"batch", "1"}}) ==
        "--set batch=1: error: batch: is no JSON pointer (expected e.g. /batch/global)\n");
  CHECK(error_with({{"/batch/global/x", "1"}}) ==
        "--set /batch/global/x=1: error: /batch/global/x: /batch/global has no such member\n");
  CHECK(error_with({{"/perturb", "[]"}, {"/perturb/0/rank", "1"}}) ==
        "--set /perturb/0/rank=1: error: /perturb/0/rank: /perturb is an empty list\n"
        "  hint: --set '/perturb/-=...' appends an entry, --set '/perturb=[...]' gives the whole list\n");
  CHECK(error_with({{"/layout/language/tp", "3"}})
            .find("--set /layout/language/tp=3: error: /layout/language/tp: 3 does not divide") == 0);
}

TEST_CASE("A list is given whole, appended to, or changed at an entry that is there") {
  const TestLibrary library;
  const std::string slow = R"({ "rank": 3, "compute_time": 1.5 })";
  CHECK(with({{"/perturb/-", slow}}).perturb[0].index == 3);
  CHECK(with({{"/perturb/-", slow}, {"/perturb/-", R"({ "jitter": 0.1 })"}, {"/perturb/0/rank", "4"}}).perturb.size() ==
        2);
  CHECK(with({{"/perturb/-", slow}, {"/perturb/0/rank", "4"}}).perturb[0].index == 4);
  CHECK(with({{"/perturb/-/jitter", "0.1"}}).perturb[0].target == PerturbTarget::jitter);
  const std::string hint =
      "  hint: --set '/perturb/-=...' appends an entry, --set '/perturb=[...]' gives the whole list\n";
  CHECK(error_with({{"/perturb/0", "{}"}}) ==
        "--set /perturb/0={}: error: /perturb/0: /perturb is an empty list\n" + hint);
  CHECK(error_with({{"/perturb/-", slow}, {"/perturb/1", "{}"}}) ==
        "--set /perturb/1={}: error: /perturb/1: /perturb ends at entry 0\n" + hint);
  CHECK(error_with({{"/perturb/-", slow}, {"/perturb/first", "{}"}}) ==
        "--set /perturb/first={}: error: /perturb/first: /perturb is a list, whose entries have numbers\n" + hint);
}

TEST_CASE("A mistake in what an override made on its way is that override's") {
  const TestLibrary library;
  CHECK(error_with({{"/perturb/-", R"({ "rank": 99, "compute_time": 2 })"}}) ==
        "--set /perturb/-={ \"rank\": 99, \"compute_time\": 2 }: error: /perturb/0/rank: 99 is beyond the last of the "
        "16 ranks\n");
  CHECK(error_with({{"/seed/x", "1"}}) == "--set /seed/x=1: error: /seed: expected an integer (is an object)\n");
  CHECK(error_with({{"/overlap/-", "1"}}) == "--set /overlap/-=1: error: /overlap: expected an object (is an array)\n");
  // A name that became a base stands in the file.
  CHECK(error_with({{"/cluster/node/base", "toy-9"}})
            .find("--set /cluster/node/base=toy-9: error: /cluster/node/base: ") == 0);
}

TEST_CASE("Mistakes name the option that gave the value") {
  const TestLibrary library;
  CHECK(error_with({{"/seed", "x", "--vary"}}) == "--vary /seed=x: error: /seed: expected an integer (is a string)\n");
  CHECK(error_with({{"/perturb/0", "{}", "--vary"}}).find("hint: --vary '/perturb/-=...' appends") !=
        std::string::npos);
}

TEST_CASE("Perturbations name one target") {
  const TestLibrary library;
  const Scenario s = with({{"/perturb", R"([ { "rank": 3, "compute_time": 1.2 }, { "node": 1, "compute_time": 2 },
      { "link": "nic", "rank": 5, "bandwidth": 0.5 }, { "jitter": 0.02 } ])"}});
  REQUIRE(s.perturb.size() == 4);
  CHECK(s.perturb[0].target == PerturbTarget::rank);
  CHECK(s.perturb[0].index == 3);
  CHECK(s.perturb[0].compute_time == 1.2);
  CHECK(s.perturb[1].target == PerturbTarget::node);
  CHECK(s.perturb[1].index == 1);
  CHECK(s.perturb[2].target == PerturbTarget::link);
  CHECK(s.perturb[2].index == 5);
  CHECK(s.perturb[2].link == "nic");
  CHECK(s.perturb[2].bandwidth == 0.5);
  CHECK(s.perturb[3].target == PerturbTarget::jitter);
  CHECK(s.perturb[3].sigma == 0.02);
}

TEST_CASE("Fixed costs and published results are kept") {
  const TestLibrary library;
  const Scenario s =
      with({{"/cost", R"({ "kind": "fixed", "forward": "1 ms", "backward_data": "2 ms", "backward_weight": 0 })"},
            {"/published", R"({ "step_time_s": 1.5, "mfu": 0.4, "source": "a table" })"}});
  CHECK(s.cost.kind == CostKind::fixed);
  CHECK(s.cost.forward_s == Approx(1e-3));
  CHECK(s.cost.backward_data_s == Approx(2e-3));
  CHECK(s.cost.backward_weight_s == 0);
  REQUIRE(s.published);
  CHECK(s.published->values == std::map<std::string, double>{{"mfu", 0.4}, {"step_time_s", 1.5}});
  CHECK(s.published->source == "a table");
}

TEST_CASE("Collectives on a mesh use all links or one") {
  const TestLibrary library;
  CHECK(read(good_scenario).collectives.mesh == MeshLinks::all);
  CHECK(with({{"/collectives/mesh", "all-links"}}).collectives.mesh == MeshLinks::all);
  CHECK(with({{"/collectives/mesh", "one-link"}}).collectives.mesh == MeshLinks::one);
}

TEST_CASE("The seed reaches the scenario") {
  const TestLibrary library;
  CHECK(with({{"/seed", "7"}}).seed == 7);
  CHECK(with({{"/seed", "0"}}).seed == 0);
  CHECK(with({{"/seed", "9007199254740991"}}).seed == 9'007'199'254'740'991);
}

TEST_CASE("The inputs are listed once each with their hashes") {
  const TestLibrary library;
  const Scenario s = read(good_scenario);
  REQUIRE(s.inputs.size() == 5);
  CHECK(s.inputs[0] == std::pair<std::string, std::string>{"good.json", sha256(good_scenario)});
  CHECK(s.inputs[1].first == "topologies/catalog/nodes/toy-8.json");
  CHECK(s.inputs[2].first == "topologies/catalog/devices/toy.json");
  CHECK(s.inputs[3].first == "topologies/catalog/fabrics/rail-400g.json");
  CHECK(s.inputs[4].first == "models/zoo/small.json");
}

TEST_CASE("A resolved scenario is a scenario that resolves to itself") {
  const TestLibrary library;
  const Scenario s =
      with({{"/perturb", R"([ { "link": "intra", "rank": 5, "bandwidth": 0.5 }, { "jitter": 0.02 } ])"},
            {"/cost", R"({ "kind": "fixed", "forward": "1 ms", "backward_data": "2 ms", "backward_weight": 0 })"},
            {"/published", R"({ "step_time_s": 1.5, "source": "a table" })"},
            {"/layout/language/stages", "[ 11, 13 ]"},
            {"/collectives/mesh", "one-link"},
            {"/host/issue", "7 us"}});
  const Scenario again = read(s.resolved_json);
  CHECK(again.resolved_json == s.resolved_json);
  CHECK(again.layout_by_module[0].stages == std::vector<int>{11, 13});
  CHECK(again.model[0].shape.zoo == "small");
  CHECK(again.collectives.mesh == MeshLinks::one);
}

TEST_CASE("Every shipped scenario resolves, and to itself") {
  int scenarios = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(MESHWEAVE_SOURCE_DIR "/scenarios")) {
    if (file.path().extension() != ".json" || file.path().parent_path().filename() == "schema") continue;
    INFO(file.path().string());
    const Scenario s = read_scenario(file.path().string());
    CHECK(parse_scenario(s.resolved_json, file.path().string()).resolved_json == s.resolved_json);
    ++scenarios;
  }
  CHECK(scenarios > 0);
}
