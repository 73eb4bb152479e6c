#include "models/transformer.h"

#include <string_view>

#include "sim/base/error.h"

namespace meshweave {
namespace {

// Weights that multiply activations in one layer: attention projections and MLP.
std::int64_t layer_matmul_weights(const TransformerShape& shape) {
  const std::int64_t attention = shape.hidden * shape.qkv_size() + shape.q_size() * shape.hidden;
  const std::int64_t mlp = shape.hidden * shape.fc1_size() + shape.ffn * shape.hidden;
  return attention + mlp;
}

std::int64_t layer_bias_parameters(const TransformerShape& shape) {
  switch (shape.biases) {
    case Biases::none: return 0;
    case Biases::qkv: return shape.qkv_size();
    case Biases::all: return shape.qkv_size() + shape.hidden + shape.fc1_size() + shape.hidden;
  }
  bug("a bias setting without a parameter count");
}

// LayerNorm has a gain and a bias per hidden element, RMSNorm a gain only.
std::int64_t norm_parameters(const TransformerShape& shape) {
  return shape.norm == Norm::layer_norm ? 2 * shape.hidden : shape.hidden;
}

std::int64_t position_parameters(const TransformerShape& shape) {
  if (shape.position != Position::learned) return 0;
  return (shape.max_positions > 0 ? shape.max_positions : shape.sequence) * shape.hidden;
}

}  // namespace

std::int64_t layer_parameters(const TransformerShape& shape) {
  return layer_matmul_weights(shape) + layer_bias_parameters(shape) + 2 * norm_parameters(shape);
}

std::int64_t parameter_count(const TransformerShape& shape, std::int64_t vocabulary_rows) {
  const std::int64_t tables = shape.tied_embeddings ? 1 : 2;
  return shape.layers * layer_parameters(shape) + norm_parameters(shape) + position_parameters(shape) +
         tables * vocabulary_rows * shape.hidden;
}

double model_flops_per_sample(const TransformerShape& shape, std::int64_t vocabulary_rows) {
  // A matmul costs 2 FLOPs per weight and token. Scores and context each cost 2·s FLOPs per token and element of
  // the query; every query head attends, whatever the number of key-value heads.
  const double s = static_cast<double>(shape.sequence);
  const double matmul_weights = static_cast<double>(layer_matmul_weights(shape));
  const double attention = 4.0 * s * static_cast<double>(shape.q_size());
  const double layers = static_cast<double>(shape.layers) * (2.0 * matmul_weights + attention);
  const double logits = 2.0 * static_cast<double>(shape.hidden) * static_cast<double>(vocabulary_rows);
  return 3.0 * s * (layers + logits);
}

std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::gelu: return "gelu";
    case Activation::swiglu: return "swiglu";
    case Activation::squared_relu: return "squared-relu";
  }
  bug("an activation without a name");
}

std::string_view name_of(Norm norm) {
  switch (norm) {
    case Norm::layer_norm: return "layer-norm";
    case Norm::rms_norm: return "rms-norm";
  }
  bug("a norm without a name");
}

std::string_view name_of(AttentionMask mask) {
  switch (mask) {
    case AttentionMask::causal: return "causal";
    case AttentionMask::full: return "full";
  }
  bug("an attention mask without a name");
}

std::string_view name_of(Position position) {
  switch (position) {
    case Position::rope: return "rope";
    case Position::learned: return "learned";
    case Position::none: return "none";
  }
  bug("a position encoding without a name");
}

std::string_view name_of(Biases biases) {
  switch (biases) {
    case Biases::none: return "none";
    case Biases::qkv: return "qkv";
    case Biases::all: return "all";
  }
  bug("a bias setting without a name");
}

}  // namespace meshweave
