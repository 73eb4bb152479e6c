// Order, reach, parameters and FLOPs of module graphs.
#include "models/module_graph.h"

#include <catch2/catch.hpp>

using namespace meshweave;

namespace {

// 0 vision ─► 1 projector ─┐
//     └─────► 2 second ────┤
// 3 audio ──► 4 third ─────┴► 5 language
ModuleGraph branches() {
  ModuleGraph g(6);
  const char* names[] = {"vision", "projector", "second", "audio", "third", "language"};
  for (std::size_t v = 0; v < 6; ++v) g[v].name = names[v];
  for (const std::size_t v : {0, 3}) g[v].shape.kind = ModuleKind::encoder;
  for (const std::size_t v : {1, 2, 4}) g[v].shape.kind = ModuleKind::projector;
  add_edge(0, 1, g);
  add_edge(0, 2, g);
  add_edge(3, 4, g);
  add_edge(1, 5, g);
  add_edge(4, 5, g);
  add_edge(2, 5, g);
  return g;
}

// One encoder of 2 layers with a projector before a language model; all sizes small.
ModuleGraph one_encoder() {
  ModuleGraph g(3);
  TransformerShape& encoder = g[0].shape;
  encoder.kind = ModuleKind::encoder;
  encoder.hidden = 4;
  encoder.layers = 2;
  encoder.heads = encoder.kv_heads = 2;
  encoder.head_dim = 2;
  encoder.ffn = 16;
  encoder.sequence = encoder.max_positions = 6;
  encoder.input_width = 10;
  g[0].items = g[1].items = 3;
  TransformerShape& projector = g[1].shape;
  projector.kind = ModuleKind::projector;
  projector.input_width = 2 * 4;
  projector.ffn = projector.hidden = 5;
  projector.sequence = 3;
  TransformerShape& language = g[2].shape;
  language.hidden = 5;
  language.layers = 1;
  language.heads = language.kv_heads = 1;
  language.head_dim = 5;
  language.ffn = 20;
  language.sequence = 12;
  language.position = Position::rope;
  add_edge(0, 1, g);
  add_edge(1, 2, g);
  return g;
}

}  // namespace

TEST_CASE("Modules run behind what feeds them, in the order of the file otherwise") {
  CHECK(topological_order(branches()) == std::vector<std::size_t>{0, 1, 2, 3, 4, 5});
  ModuleGraph backwards(3);  // 2 ─► 1 ─► 0
  add_edge(2, 1, backwards);
  add_edge(1, 0, backwards);
  CHECK(topological_order(backwards) == std::vector<std::size_t>{2, 1, 0});
}

TEST_CASE("A cycle is found with the way around it") {
  ModuleGraph g = branches();
  CHECK(find_cycle(g).empty());
  add_edge(5, 3, g);
  CHECK(find_cycle(g) == std::vector<std::size_t>{5, 3, 4, 5});
  ModuleGraph self(2);
  add_edge(1, 1, self);
  CHECK(find_cycle(self) == std::vector<std::size_t>{1, 1});
}

TEST_CASE("Edges come in the order of the file, and say who precedes whom") {
  const ModuleGraph g = branches();
  CHECK(sink_module(g) == 5);
  std::vector<std::size_t> sources;
  for (const EdgeOfModules e : inputs_of(g, 5)) sources.push_back(source(e, g));
  CHECK(sources == std::vector<std::size_t>{1, 4, 2});
  CHECK(outputs_of(g, 0).size() == 2);
  CHECK(precedes(g, 0, 5));
  CHECK(precedes(g, 0, 2));
  CHECK_FALSE(precedes(g, 0, 4));
  CHECK_FALSE(precedes(g, 5, 0));
  CHECK_FALSE(precedes(g, 1, 1));
}

TEST_CASE("Gradients go down to the first module that is trained") {
  ModuleGraph g = one_encoder();
  const auto state = [&](std::size_t v) { return std::pair(trains_before(g, v), has_backward(g, v)); };
  CHECK(state(0) == std::pair(false, true));
  CHECK(state(1) == std::pair(true, true));
  CHECK(state(2) == std::pair(true, true));
  g[0].frozen = true;
  CHECK(state(0) == std::pair(false, false));
  CHECK(state(1) == std::pair(false, true));
  CHECK(state(2) == std::pair(true, true));
  g[1].frozen = true;
  CHECK(state(1) == std::pair(false, false));
  CHECK(state(2) == std::pair(false, true));
  g[0].frozen = false;
  g[2].frozen = true;  // a frozen language model hands gradients down
  CHECK(state(1) == std::pair(true, true));
  CHECK(state(2) == std::pair(true, true));
}

TEST_CASE("Parameters of an encoder, a projector and a graph") {
  const ModuleGraph g = one_encoder();
  // Patches 10·4 + 4 = 44; positions 6·4 = 24; a layer 12·4² + 13·4 = 244, two 488; the final LayerNorm 8.
  CHECK(parameter_count(g[0].shape, 0) == 44 + 24 + 488 + 8);
  // 8·5 + 5 and 5·5 + 5.
  CHECK(parameter_count(g[1].shape, 0) == 45 + 30);
  // A layer 12·5² + 13·5 = 365, a tied table of 7 rows 35, the final LayerNorm 10.
  CHECK(parameter_count(g[2].shape, 7) == 365 + 35 + 10);
  CHECK(parameter_count(g, 7) == 564 + 75 + 410);
  ModuleGraph frozen = g;
  frozen[0].frozen = true;
  CHECK(trained_parameter_count(frozen, 7) == 75 + 410);
}

TEST_CASE("Padded heads count neither as parameters nor as FLOPs") {
  TransformerShape shape = one_encoder()[0].shape;
  const std::int64_t parameters = parameter_count(shape, 0);
  const double flops = forward_flops_per_token(shape, 0);
  shape.heads = shape.kv_heads = 4;
  shape.padded_heads = 2;
  CHECK(parameter_count(shape, 0) == parameters);
  CHECK(forward_flops_per_token(shape, 0) == flops);
}

TEST_CASE("Model FLOPs of a graph") {
  ModuleGraph g = one_encoder();
  // Per token: patches 2·10·4 = 80; a layer 2·12·4² = 384 and attention 4·6·4 = 96, two 960. 3 items of 6 tokens.
  const double encoder = 18 * (80 + 960.0);
  // Per row 2·(8·5 + 5·5) = 130; 3 items of 3 rows.
  const double projector = 9 * 130.0;
  // Per token 2·12·25 = 600, attention 4·12·5 = 240, logits 2·5·7 = 70; 12 tokens.
  const double language = 12 * (600 + 240 + 70.0);
  CHECK(model_flops_per_sample(g, 0, 7, false) == encoder);
  CHECK(model_flops_per_sample(g, 0, 7, true) == 3 * encoder);
  CHECK(model_flops_per_sample(g, 1, 7, true) == 3 * projector);
  CHECK(model_flops_per_sample(g, 2, 7, true) == 3 * language);
  g[0].frozen = true;
  CHECK(model_flops_per_sample(g, 0, 7, true) == encoder);
  CHECK(model_flops_per_sample(g, 1, 7, true) == 3 * projector);
  g[2].frozen = true;
  CHECK(model_flops_per_sample(g, 2, 7, true) == 2 * language);
}
