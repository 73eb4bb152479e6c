// The shipped models have the sizes that their sources state.
#include "sim/scenario/zoo.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
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
  for (const std::string& name : names_in(Library::models)) {
    CAPTURE(name);
    CHECK((published.count(name) == 1 || name == "megatron-1.7b" || name == "tsp-7b"));
  }
  CHECK(names_in(Library::models).size() == published.size() + 2);
}

TEST_CASE("Nemotron-4 15B splits into the published parts") {
  // arXiv 2402.16819: 3.1B embedding and 12.5B other parameters.
  const TransformerShape shape = read_zoo("nemotron4-15b");
  const double embeddings = 2.0 * static_cast<double>(shape.vocabulary * shape.hidden);
  CHECK(embeddings == Approx(3.1e9).margin(0.05e9));
  CHECK(static_cast<double>(size_of(shape)) - embeddings == Approx(12.5e9).margin(0.05e9));
}
