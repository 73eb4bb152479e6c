// The shipped models have the sizes that their sources state.
#include "sim/scenario/zoo.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "models/transformer.h"
#include "sim/scenario/library.h"

using namespace meshweave;

namespace {

std::int64_t size_of(const TransformerShape& shape) { return parameter_count(shape, shape.vocabulary); }

struct Published {
  double parameters;
  double half_digit;  // half a unit of the last digit that is published; 0 for an exact count
};

// Sizes as their sources print them.
//
// GPTs by 12·L·h²·(1 + 13/12h) + (tables·V + s)·h + 2h, e.g. megatron-70b: 12·84·8192² = 67.65e9 and
// 2·131072·8192 = 2.15e9 → 69.8e9. Gated models by L·(h·(a + 2k)·d + a·d·h + 3·h·f + 2h) + 2·V·h + h, e.g.
// llama2-70b: 80·(8192·(64 + 16)·128 + 8192² + 3·8192·28672 + 16384) + 2·32000·8192 + 8192 = 68,976,648,192.
const std::map<std::string, Published> published = {
    {"megatron-7.1b", {7.1e9, 0.05e9}},   {"megatron-16b", {16e9, 0.5e9}},       {"megatron-32b", {32e9, 0.5e9}},
    {"megatron-70b", {70e9, 0.5e9}},      {"megatron-119b", {119e9, 0.5e9}},     {"megatron-177b", {177e9, 0.5e9}},
    {"megatron-314b", {314e9, 0.5e9}},    {"megatron-462b", {462e9, 0.5e9}},     {"gpt3-175b", {175e9, 0.5e9}},
    {"mt-nlg-530b", {530e9, 0.5e9}},      {"gpt-1t", {1008e9, 0.5e9}},           {"sc21-1.7b", {1.7e9, 0.05e9}},
    {"sc21-3.6b", {3.6e9, 0.05e9}},       {"sc21-7.5b", {7.5e9, 0.05e9}},        {"sc21-18.4b", {18.4e9, 0.05e9}},
    {"sc21-39.1b", {39.1e9, 0.05e9}},     {"sc21-76.1b", {76.1e9, 0.05e9}},      {"sc21-145.6b", {145.6e9, 0.05e9}},
    {"sc21-310.1b", {310.1e9, 0.05e9}},   {"sc21-529.6b", {529.6e9, 0.05e9}},    {"sc21-1008b", {1008e9, 0.05e9}},
    {"korthikanti-22b", {22e9, 0.5e9}},   {"nemotron4-15b", {15.6e9, 0.05e9}},   {"llama2-7b", {6'738'415'616, 0}},
    {"llama2-13b", {13'015'864'320, 0}},  {"llama2-70b", {68'976'648'192, 0}},   {"llama3-8b", {8'030'261'248, 0}},
    {"llama3-70b", {70'553'706'496, 0}},  {"llama3-405b", {405'853'388'800, 0}}, {"qwen2.5-14b", {14'770'033'664, 0}},
    {"qwen2.5-32b", {32'763'876'352, 0}},
};

}  // namespace

TEST_CASE("zoo models round to the published parameter counts") {
  for (const auto& [name, expected] : published) {
    CAPTURE(name);
    const TransformerShape shape = read_zoo(name);
    CHECK(std::abs(static_cast<double>(size_of(shape)) - expected.parameters) <= expected.half_digit);
    CHECK(shape.published_parameters == expected.parameters);
    CHECK(shape.zoo == name);
    CHECK_FALSE(shape.source.empty());
  }
}

// Parameters by the closed form of a vision transformer with LayerNorm and biases:
//   w·h + h  +  n·h  +  L·(12h² + 13h)  +  2h        w features of a patch, n positions, ffn 4h
std::int64_t vision_transformer(std::int64_t h, std::int64_t layers, std::int64_t width, std::int64_t positions) {
  return width * h + h + positions * h + layers * (12 * h * h + 13 * h) + 2 * h;
}

TEST_CASE("encoders of the heterogeneous-parallelism paper have the sizes in their names") {
  const struct {
    const char* name;
    std::int64_t hidden, layers;
    double parameters;
  } encoders[] = {{"vit-1b", 1536, 40, 1.1e9},
                  {"vit-3b", 2560, 36, 2.8e9},
                  {"vit-7.2b", 3584, 47, 7.2e9},
                  {"vit-12b", 4608, 48, 12.2e9}};
  for (const auto& e : encoders) {
    CAPTURE(e.name);
    const TransformerShape shape = read_zoo(e.name);
    CHECK(shape.kind == ModuleKind::encoder);
    CHECK(shape.sequence == 32 * 32);
    CHECK(shape.input_width == 14 * 14 * 3);
    CHECK(shape.heads * 64 == shape.hidden);
    CHECK(size_of(shape) == vision_transformer(e.hidden, e.layers, 588, 1024));
    CHECK(static_cast<double>(size_of(shape)) == Approx(e.parameters).margin(0.06e9));
    // A token: 24h² in a layer and 4·n·h for attention over n = 1024 tokens; 2·w·h for the patch.
    const double h = static_cast<double>(e.hidden);
    CHECK(forward_flops_per_token(shape, 0) ==
          Approx(static_cast<double>(e.layers) * (24 * h * h + 4 * 1024 * h) + 2 * 588 * h).epsilon(1e-14));
  }
}

TEST_CASE("InternViT-6B has its published size, with 45 layers and with the 48 of the first version") {
  // A layer: 12h² weights, biases 3h + h + 4h + h, two gains of RMSNorm 2h.
  TransformerShape shape = read_zoo("internvit-6b");
  const std::int64_t h = 3200;
  CHECK(size_of(shape) == 588 * h + h + 1024 * h + 45 * (12 * h * h + 11 * h) + h);
  CHECK(static_cast<double>(size_of(shape)) == Approx(shape.published_parameters).margin(0.005e9));
  shape.layers = 48;  // InternVL-Chat-V1-1's model card: "ViT 5.91B", at 448 pixels
  CHECK(static_cast<double>(size_of(shape)) == Approx(5.91e9).margin(0.005e9));
}

TEST_CASE("CLIP ViT-L/14 lacks its class token and the norm in front of the layers") {
  // The vision tower of openai/clip-vit-large-patch14-336 has 303,507,456 parameters: beside ours a class token of 1024
  // with its position and a LayerNorm of 2048, and no bias of 1024 at the patches.
  const TransformerShape shape = read_zoo("clip-vit-l14-336");
  CHECK(size_of(shape) == vision_transformer(1024, 24, 588, 576));
  CHECK(size_of(shape) + 1024 + 1024 + 2048 - 1024 == 303'507'456);
  CHECK(shape.sequence == (336 / 14) * (336 / 14));
}

TEST_CASE("the encoder of Whisper large-v3 lacks its first convolution") {
  // Two convolutions of width 3, 128·3·1280 + 1280 and 1280·3·1280 + 1280; positions 1500·1280; 32 layers of
  // 12h² + 13h − h, since keys have no bias; a LayerNorm: 636,968,960.
  const TransformerShape shape = read_zoo("whisper-large-v3-encoder");
  const std::int64_t h = 1280;
  const std::int64_t first = 128 * 3 * h + h;
  const std::int64_t published = first + 3 * h * h + h + 1500 * h + 32 * (12 * h * h + 12 * h) + 2 * h;
  CHECK(published == 636'968'960);
  CHECK(size_of(shape) == published - first + 32 * h);
}

TEST_CASE("a projector of two layers has the size of InternVL-Chat-V1-1's, without its norm") {
  // Its model card says "MLP 91.78M": a LayerNorm over 4·3200 features, 12800 → 5120 → 5120 with biases.
  TransformerShape shape = read_zoo("mlp-2");
  CHECK(shape.kind == ModuleKind::projector);
  shape.input_width = 4 * 3200;
  shape.hidden = shape.ffn = 5120;
  CHECK(size_of(shape) + 2 * 12800 == 91'786'240);
}

TEST_CASE("language models for the heterogeneous-parallelism paper") {
  // Its 7B, 14B, 32B, 70B and 120B, read as Llama-2-7B, Qwen2.5, Llama-3-70B and Megatron's 119B.
  const std::map<std::string, double> sizes = {
      {"llama2-7b", 7e9}, {"qwen2.5-14b", 14e9}, {"qwen2.5-32b", 32e9}, {"llama3-70b", 70e9}, {"megatron-119b", 120e9}};
  for (const auto& [name, size] : sizes) {
    CAPTURE(name);
    CHECK(static_cast<double>(size_of(read_zoo(name))) == Approx(size).epsilon(0.06));
  }
}

TEST_CASE("the smallest model of the Megatron-LM README is a little larger than its name") {
  // 24·12·2048² + 13·24·2048 + (2·131072 + 4096 + 2)·2048 = 1,753,862,144, printed as 1.7B.
  CHECK(size_of(read_zoo("megatron-1.7b")) == 1'753'862'144);
}

TEST_CASE("the TSP paper's model has 16 h² weights per layer") {
  // Attention 4h², SwiGLU MLP 3·h·4h = 12h². 32 layers of 16·4096² are 2³³ weights; two gains per layer beside.
  const TransformerShape shape = read_zoo("tsp-7b");
  CHECK(layer_parameters(shape) == 16LL * 4096 * 4096 + 2 * 4096);
  CHECK(shape.layers * 16 * 4096 * 4096 == 1LL << 33);
}

TEST_CASE("every zoo entry is covered") {
  const std::set<std::string> others = {"megatron-1.7b", "tsp-7b",           "vit-1b",
                                        "vit-3b",        "vit-7.2b",         "vit-12b",
                                        "internvit-6b",  "clip-vit-l14-336", "whisper-large-v3-encoder",
                                        "mlp-2"};
  for (const std::string& name : names_in(Library::models)) {
    CAPTURE(name);
    CHECK(published.count(name) + others.count(name) == 1);
    CHECK_FALSE(read_zoo(name).source.empty());
  }
  CHECK(names_in(Library::models).size() == published.size() + others.size());
}

TEST_CASE("Nemotron-4 15B splits into the published parts") {
  // arXiv 2402.16819: 3.1B embedding and 12.5B other parameters.
  const TransformerShape shape = read_zoo("nemotron4-15b");
  const double embeddings = 2.0 * static_cast<double>(shape.vocabulary * shape.hidden);
  CHECK(embeddings == Approx(3.1e9).margin(0.05e9));
  CHECK(static_cast<double>(size_of(shape)) - embeddings == Approx(12.5e9).margin(0.05e9));
}
