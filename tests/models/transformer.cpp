// Parameters and model FLOPs of a transformer shape, derived by hand.
#include "models/transformer.h"

#include <catch2/catch.hpp>

using namespace meshweave;

namespace {

TransformerShape gpt(std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t sequence) {
  TransformerShape shape;
  shape.hidden = hidden;
  shape.layers = layers;
  shape.heads = heads;
  shape.kv_heads = heads;
  shape.head_dim = hidden / heads;
  shape.ffn = 4 * hidden;
  shape.sequence = sequence;
  return shape;
}

TransformerShape llama(std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t kv_heads,
                       std::int64_t ffn) {
  TransformerShape shape = gpt(hidden, layers, heads, 4096);
  shape.kv_heads = kv_heads;
  shape.ffn = ffn;
  shape.activation = Activation::swiglu;
  shape.norm = Norm::rms_norm;
  shape.biases = Biases::none;
  shape.position = Position::rope;
  shape.tied_embeddings = false;
  return shape;
}

}  // namespace

TEST_CASE("a GPT layer has 12 h² weights and 13 h biases and norm parameters") {
  // Weights: QKV 3h², projection h², fc1 4h², fc2 4h². Biases: 3h + h + 4h + h = 9h. Two LayerNorms: 4h.
  const std::int64_t h = 12288;
  CHECK(layer_parameters(gpt(h, 96, 96, 2048)) == 12 * h * h + 13 * h);
}

TEST_CASE("biases on the query, key and value projections only") {
  // Qwen2.5-style: qkv bias (40 + 2·8)·128 = 7168; a layer without any bias lacks exactly these.
  TransformerShape with = llama(5120, 48, 40, 8, 13824);
  const std::int64_t without = layer_parameters(with);
  with.biases = Biases::qkv;
  CHECK(layer_parameters(with) - without == 7168);
}

TEST_CASE("a whole GPT follows equation 2 of Narayanan et al. and the final norm") {
  // arXiv 2104.04473 eq. 2: P = 12·l·h²·(1 + 13/(12h) + (V + s)/(12·l·h)); the final LayerNorm adds 2h.
  const std::int64_t l = 96, h = 12288, V = 51200, s = 2048;
  const double equation = 12.0 * l * h * h * (1.0 + 13.0 / (12.0 * h) + double(V + s) / (12.0 * l * h));
  CHECK(static_cast<double>(parameter_count(gpt(h, l, 96, s), V)) == Approx(equation + 2.0 * h).epsilon(1e-14));
}

TEST_CASE("a Llama counts two embedding tables, gains only, and no positions") {
  // Llama 2 7B. Layer: attention 4·4096² = 67,108,864; MLP 3·4096·11008 = 135,266,304; two gains 8,192
  // → 202,383,360. Times 32 = 6,476,267,520. Tables 2·32000·4096 = 262,144,000. Final gain 4,096.
  CHECK(parameter_count(llama(4096, 32, 32, 32, 11008), 32000) == 6'738'415'616);
}

TEST_CASE("grouped key-value heads shrink two of the three attention inputs") {
  // Llama 3 8B. Attention: q 4096², k and v 2·4096·1024, projection 4096² → 41,943,040. MLP 3·4096·14336
  // = 176,160,768. Gains 8,192. Layer 218,112,000, times 32 = 6,979,584,000. Tables 2·128256·4096
  // = 1,050,673,152. Final gain 4,096.
  CHECK(parameter_count(llama(4096, 32, 32, 8, 14336), 128256) == 8'030'261'248);
}

TEST_CASE("learned positions have as many rows as the sequence unless the shape says otherwise") {
  TransformerShape shape = gpt(64, 1, 4, 128);
  const std::int64_t by_sequence = parameter_count(shape, 0);
  shape.max_positions = 512;
  CHECK(parameter_count(shape, 0) - by_sequence == (512 - 128) * 64);
  shape.position = Position::none;
  CHECK(by_sequence - parameter_count(shape, 0) == 128 * 64);
}

TEST_CASE("the vocabulary is padded to a multiple of 128 times the tensor-parallel degree") {
  TransformerShape shape = gpt(64, 1, 4, 128);
  shape.vocabulary = 50257;
  CHECK(shape.padded_vocabulary(1) == 50304);  // 393 · 128
  CHECK(shape.padded_vocabulary(8) == 51200);  // 50 · 1024
  shape.vocabulary = 51200;
  CHECK(shape.padded_vocabulary(8) == 51200);
}

TEST_CASE("model FLOPs of a GPT equal the closed form of Korthikanti et al.") {
  // arXiv 2205.05198 eq. 3 for one sample: 72·L·s·h²·(1 + s/6h + V/12hL).
  for (const std::int64_t s : {512, 2048, 8192}) {
    const double L = 48, h = 6144, V = 51200;
    const double closed = 72 * L * double(s) * h * h * (1 + double(s) / (6 * h) + V / (12 * h * L));
    CHECK(model_flops_per_sample(gpt(6144, 48, 64, s), 51200) == Approx(closed).epsilon(1e-14));
  }
}

TEST_CASE("model FLOPs of a gated model with grouped heads, by hand") {
  // Llama 3 8B, 4096 tokens. Weights per layer 41,943,040 + 176,160,768 = 218,103,808, 2 FLOPs each:
  // 436,207,616 per token. Scores and context over all 32 heads: 4·4096·4096 = 67,108,864. Times 32 layers:
  // 503,316,480 · 32 = 16,106,127,360. Logits 2·4096·128256 = 1,050,673,152. Forward and backward: times 3.
  const double per_token = 3.0 * (16'106'127'360.0 + 1'050'673'152.0);
  CHECK(model_flops_per_sample(llama(4096, 32, 32, 8, 14336), 128256) == Approx(4096.0 * per_token).epsilon(1e-14));
}

TEST_CASE("a bidirectional mask, biases and norms change no model FLOPs") {
  TransformerShape shape = gpt(1024, 4, 16, 256);
  const double flops = model_flops_per_sample(shape, 1000);
  shape.mask = AttentionMask::full;
  shape.biases = Biases::none;
  shape.norm = Norm::rms_norm;
  CHECK(model_flops_per_sample(shape, 1000) == flops);
}
