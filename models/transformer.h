// The shape of a module: everything that its parameters, FLOPs and activations follow from.
//
// A language model and an encoder are transformers. An encoder begins with a linear layer from the `input_width`
// features of an input token (a flattened image patch, a stretch of sound) to the hidden width in the place of the
// vocabulary, and ends with its final norm: no logits. A projector is an MLP of two layers alone, W_2·φ(W_1·x + b) + b,
// from `input_width` over `ffn` to `hidden`.
//
// Parameters of one layer, without biases and norms (h hidden, a heads, k kv heads, d head dim, f ffn):
//   attention  h·(a + 2k)·d  +  a·d·h
//   MLP        2·h·f (GELU, squared ReLU)  or  3·h·f (SwiGLU)
// e.g. GPT-3 175B: h 12288, a = k = 96, d 128, f 4h  →  12 h² per layer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshweave {

enum class ModuleKind : std::uint8_t { language, encoder, projector };
enum class Activation : std::uint8_t { gelu, swiglu, squared_relu };
enum class Norm : std::uint8_t { layer_norm, rms_norm };
enum class AttentionMask : std::uint8_t { causal, full };
// rope turns pairs of features by the token's position; rope_2d the first half of the pairs by its row in the item's
// grid and the second half by its column.
enum class Position : std::uint8_t { rope, learned, none, rope_2d };
enum class Biases : std::uint8_t { none, qkv, all };  // qkv: only the query, key and value projections

struct TransformerShape {
  std::string zoo;     // the zoo entry that it came from; empty for a shape given in place
  std::string source;  // where the numbers were published
  ModuleKind kind = ModuleKind::language;
  std::int64_t hidden = 0;  // the width of the output
  std::int64_t layers = 0;  // a projector has none
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;               // default: heads
  std::int64_t head_dim = 0;               // default: hidden / heads
  std::int64_t ffn = 0;                    // default: 4·hidden
  std::int64_t vocabulary = 0;             // as published, before padding
  std::int64_t vocabulary_multiple = 128;  // padded up to a multiple of this times TP (Megatron's rule)
  std::int64_t sequence = 0;               // tokens per sample; of an encoder and a projector: rows per item
  std::int64_t input_width = 0;            // encoder and projector: features of an input token
  std::int64_t item_columns = 0;           // rope_2d: tokens in a row of an item's grid
  std::int64_t padded_heads = 0;           // of `heads`, those that only fill tensor parallelism: zero, and stay so
  std::int64_t max_positions = 0;          // rows of a learned position table; default: sequence
  Activation activation = Activation::gelu;
  Norm norm = Norm::layer_norm;
  Biases biases = Biases::all;
  AttentionMask mask = AttentionMask::causal;
  Position position = Position::learned;
  bool fused_attention = true;
  bool tied_embeddings = true;
  double dropout = 0.0;             // probability, at attention, projection, fc2 and embedding
  double published_parameters = 0;  // 0 where no count was published

  bool attends() const { return kind != ModuleKind::projector; }
  bool gated() const { return activation == Activation::swiglu; }
  std::int64_t q_size() const { return heads * head_dim; }
  std::int64_t kv_size() const { return kv_heads * head_dim; }
  std::int64_t qkv_size() const { return q_size() + 2 * kv_size(); }
  std::int64_t fc1_size() const { return gated() ? 2 * ffn : ffn; }
  std::int64_t padded_vocabulary(std::int64_t tp) const {
    const std::int64_t m = vocabulary_multiple * tp;
    return (vocabulary + m - 1) / m * m;
  }
};

// Parameters of one layer, weights, biases and norms. Padded heads count nowhere below: they train nothing.
std::int64_t layer_parameters(const TransformerShape& shape);
// Parameters of the module; of a language model with `vocabulary_rows` rows per embedding table (the published count
// uses the unpadded vocabulary).
std::int64_t parameter_count(const TransformerShape& shape, std::int64_t vocabulary_rows);

// Model FLOPs of the forward pass over one of the `shape.sequence` tokens of a sample or item: matmuls and attention,
// attention counted in full (no causal halving), logits included.
double forward_flops_per_token(const TransformerShape& shape, std::int64_t vocabulary_rows);
// Model FLOPs of one training sample of a language model, forward and backward, in Megatron-LM's convention (README of
// Megatron-LM, Korthikanti et al. 2205.05198 eq. 3): 3 × forward, no recomputation: for GELU and MHA
// 72·L·s·h²·(1 + s/6h + V/12hL) with V padded.
double model_flops_per_sample(const TransformerShape& shape, std::int64_t vocabulary_rows);

std::string_view name_of(ModuleKind);
std::string_view name_of(Activation);
std::string_view name_of(Norm);
std::string_view name_of(AttentionMask);
std::string_view name_of(Position);
std::string_view name_of(Biases);

}  // namespace meshweave
