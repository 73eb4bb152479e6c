// What a module graph resolves to: items, positions, widths, hosts, layouts of modules inside others.
#include <catch2/catch.hpp>

#include "sim/base/error.h"
#include "sim/scenario/reader.h"
#include "tests/scenario/test_library.h"

using namespace meshweave;

namespace {

// 16 ranks, tp 2, pp 2, dp 4. An item of the encoder has 256 tokens, a sample of "small" 4096 tokens of width 1024.
const std::string graph_scenario = R"({
  "cluster": { "node": "toy-8", "nodes": 2 },
  "model": {
    "vision": { "zoo": "toy-vit", "inside": "language" },
    "projector": { "zoo": "mlp", "inside": "vision" },
    "language": { "zoo": "small" }
  },
  "edges": [ [ "vision", "projector" ], { "from": "projector", "to": "language", "fraction": 0.25, "merge": 4 } ],
  "batch": { "global": 32, "micro": 1 },
  "layout": { "language": { "tp": 2, "pp": 2, "dp": 4, "sequence_parallel": true, "recompute": "selective" } }
}
)";

Scenario with(const std::vector<Override>& overrides) {
  return parse_scenario(graph_scenario, "graph.json", overrides);
}

}  // namespace

TEST_CASE("Items follow from the share of the sequence, and rows from merges") {
  const TestLibrary library;
  const Scenario s = with({});
  REQUIRE(num_vertices(s.model) == 3);
  const Module& vision = s.model[0];
  const Module& projector = s.model[1];
  // 0.25 · 4096 = 1024 tokens; an item makes 256 / 4 = 64 of them: 16 items.
  CHECK(vision.items == 16);
  CHECK(vision.rows_per_sample() == 4096);
  CHECK(vision.shape.mask == AttentionMask::full);
  CHECK(vision.shape.hidden == 512);
  CHECK(projector.items == 16);
  CHECK(projector.shape.sequence == 64);
  CHECK(projector.shape.input_width == 4 * 512);
  CHECK(projector.shape.hidden == 1024);
  CHECK(projector.shape.ffn == 1024);
  CHECK(s.model[2].items == 1);
  const ModuleEdge& into_projector = s.model[inputs_of(s.model, 1).front()];
  const ModuleEdge& into_language = s.model[inputs_of(s.model, 2).front()];
  CHECK(into_projector.merge == 4);
  CHECK(into_language.merge == 1);
  CHECK(into_language.tokens == 1024);
  CHECK(into_language.first == 0);
  CHECK(item_positions(s.model) == 1024);
}

TEST_CASE("A fraction follows from the items where it is left out") {
  const TestLibrary library;
  const Scenario s = with({{"/model/vision/items", "8"}, {"/edges/1", R"([ "projector", "language" ])"}});
  // 8 items of 256 tokens, not merged: 2048 of 4096.
  const ModuleEdge& edge = s.model[inputs_of(s.model, 2).front()];
  CHECK(edge.tokens == 2048);
  CHECK(edge.fraction == 0.5);
}

TEST_CASE("Edges share the sequence in their order; an encoder may feed two projectors") {
  const TestLibrary library;
  const Scenario s = with({{"/model/second", R"({ "zoo": "mlp", "inside": "language" })"},
                           {"/edges/-", R"([ "vision", "second" ])"},
                           {"/edges/-", R"({ "from": "second", "to": "language", "merge": 16 })"}});
  const std::vector<EdgeOfModules> inputs = inputs_of(s.model, 2);
  REQUIRE(inputs.size() == 2);
  CHECK(s.model[inputs[0]].tokens == 1024);
  CHECK(s.model[inputs[1]].first == 1024);
  CHECK(s.model[inputs[1]].tokens == 16 * 256 / 16);  // the same 16 items
  CHECK(s.model[3].shape.input_width == 16 * 512);
  CHECK(outputs_of(s.model, 0).size() == 2);
}

TEST_CASE("Rows as wide as the language model need no projector") {
  const TestLibrary library;
  const Scenario s =
      with({{"/model", R"({ "vision": { "zoo": "toy-vit", "inside": "language" }, "language": { "zoo": "small" } })"},
            {"/edges", R"([ { "from": "vision", "to": "language", "fraction": 0.125, "merge": 2 } ])"}});
  const ModuleEdge& edge = s.model[inputs_of(s.model, 1).front()];
  CHECK(edge.merge == 2);  // 2 · 512 features are the 1024 of the language model
  CHECK(edge.tokens == 512);
  CHECK(s.model[0].items == 4);
}

TEST_CASE("A module inside another has its host's layout, in the host's first stage") {
  const TestLibrary library;
  const Scenario s = with({{"/model/projector/recompute", "full"}});
  REQUIRE(s.layout_by_module.size() == 3);
  const ModuleLayout& host = s.layout_by_module[2];
  for (const std::size_t v : {0, 1}) {
    const ModuleLayout& layout = s.layout_by_module[v];
    CHECK(s.model[v].hosted());
    CHECK(s.model[v].inside == 2);  // the projector's host stands there itself
    CHECK(s.model[v].host_stage == HostStage::first);
    CHECK(layout.tp == host.tp);
    CHECK(layout.pp == host.pp);
    CHECK(layout.dp == host.dp);
    CHECK(layout.rank_count == host.rank_count);
    CHECK_FALSE(layout.sequence_parallel);
    CHECK(s.micro_batches(v) == 8);
  }
  CHECK_FALSE(s.model[2].hosted());
  CHECK(s.layout_by_module[0].stages == std::vector<int>{6, 0});
  CHECK(s.layout_by_module[1].stages == std::vector<int>{0, 0});
  CHECK(host.stages == std::vector<int>{12, 12});
  CHECK(s.layout_by_module[0].recompute == Recompute::selective);
  CHECK(s.layout_by_module[1].recompute == Recompute::full);
}

TEST_CASE("Heads are padded to a multiple of tp where the scenario says so") {
  const TestLibrary library;
  const std::vector<Override> odd{{"/model/vision/heads", "5"}, {"/model/vision/head_dim", "64"}};
  CHECK_THROWS_AS(with(odd), InputError);
  std::vector<Override> padded = odd;
  padded.push_back({"/model/vision/pad_heads", "true"});
  const Scenario s = with(padded);
  CHECK(s.model[0].shape.heads == 6);
  CHECK(s.model[0].shape.kv_heads == 6);
  CHECK(s.model[0].shape.padded_heads == 1);
}

TEST_CASE("The grid of an item is a square, or has the given columns") {
  const TestLibrary library;
  CHECK(with({{"/model/vision/position", "rope-2d"}}).model[0].shape.item_columns == 16);
  const Scenario s = with({{"/model/vision/position", "rope-2d"}, {"/model/vision/item_columns", "32"}});
  CHECK(s.model[0].shape.item_columns == 32);
}

TEST_CASE("Text-only samples come as whole micro-batches, the last ones of a run of samples") {
  const TestLibrary library;
  const Scenario s = with({{"/batch/text_only", R"({ "samples": 4, "every": 16 })"}});
  // A micro-batch holds micro 1 · dp 4 samples: the 4th and the 8th of 8 micro-batches.
  for (int m = 0; m < 8; ++m) CHECK(s.text_only(m) == (m == 3 || m == 7));
  CHECK_FALSE(s.batch.text_only.contains(11));
  CHECK(s.batch.text_only.contains(12));
  const Scenario last = with({{"/batch/text_only", "8"}});
  CHECK(last.batch.text_only.every == 32);
  CHECK(last.text_only(6));
  CHECK_FALSE(last.text_only(5));
  CHECK_FALSE(with({}).text_only(7));
}

TEST_CASE("Frozen modules and the loss over text") {
  const TestLibrary library;
  const Scenario s = with({{"/model/vision/frozen", "true"}, {"/loss", R"({ "tokens": "text", "prompt": 0.25 })"}});
  CHECK(s.model[0].frozen);
  CHECK_FALSE(s.model[2].frozen);
  CHECK(s.loss.tokens == LossTokens::text);
  CHECK(s.loss.prompt == 0.25);
  CHECK(with({}).loss.tokens == LossTokens::all);
}

TEST_CASE("A resolved graph resolves to itself") {
  const TestLibrary library;
  for (const std::vector<Override>& overrides :
       {std::vector<Override>{},
        {{"/model/vision/heads", "5"}, {"/model/vision/head_dim", "64"}, {"/model/vision/pad_heads", "true"}},
        {{"/model/vision/position", "rope-2d"}, {"/batch/text_only", "8"}, {"/loss", "text"}},
        {{"/model/vision/cp_items", "divided"}, {"/layout/language/cp", "2"}, {"/layout/language/dp", "2"}}}) {
    const Scenario s = with(overrides);
    const Scenario again = parse_scenario(s.resolved_json, "graph.json");
    CHECK(again.resolved_json == s.resolved_json);
    CHECK(again.model[0].items == s.model[0].items);
    CHECK(again.model[0].shape.heads == s.model[0].shape.heads);
    CHECK(again.layout_by_module[0].stages == s.layout_by_module[0].stages);
  }
}

TEST_CASE("A graph of several modules is refused behind the checks") {
  const TestLibrary library;
  try {
    require_one_module(with({}));
    FAIL("accepted");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()) ==
          "graph.json: error: /model: several modules are not simulated by this version yet\n");
  }
}
