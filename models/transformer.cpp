#include "models/transformer.h"

#include <string_view>

#include "sim/base/error.h"

namespace meshweave {
namespace {

// Features of queries, keys and values together, and of the context, without padded heads: these have keys of their
// own.
std::int64_t own_qkv_size(const TransformerShape& shape) {
  return shape.qkv_size() - 3 * shape.padded_heads * shape.head_dim;
}
std::int64_t own_q_size(const TransformerShape& shape) { return shape.q_size() - shape.padded_heads * shape.head_dim; }

// Weights that multiply activations in one layer: attention projections and MLP.
std::int64_t layer_matmul_weights(const TransformerShape& shape) {
  const std::int64_t attention = shape.hidden * own_qkv_size(shape) + own_q_size(shape) * shape.hidden;
  const std::int64_t mlp = shape.hidden * shape.fc1_size() + shape.ffn * shape.hidden;
  return attention + mlp;
}

std::int64_t layer_bias_parameters(const TransformerShape& shape) {
  switch (shape.biases) {
    case Biases::none: return 0;
    case Biases::qkv: return own_qkv_size(shape);
    case Biases::all: return own_qkv_size(shape) + shape.hidden + shape.fc1_size() + shape.hidden;
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

// The linear layer over input tokens of an encoder.
std::int64_t patch_parameters(const TransformerShape& shape) {
  return shape.input_width * shape.hidden + (shape.biases == Biases::all ? shape.hidden : 0);
}

// Weights of the two linear layers of a projector, and with their biases.
std::int64_t projector_weights(const TransformerShape& shape) {
  return shape.input_width * shape.fc1_size() + shape.ffn * shape.hidden;
}
std::int64_t projector_parameters(const TransformerShape& shape) {
  return projector_weights(shape) + (shape.biases == Biases::all ? shape.fc1_size() + shape.hidden : 0);
}

}  // namespace

std::int64_t layer_parameters(const TransformerShape& shape) {
  return layer_matmul_weights(shape) + layer_bias_parameters(shape) + 2 * norm_parameters(shape);
}

std::int64_t parameter_count(const TransformerShape& shape, std::int64_t vocabulary_rows) {
  if (shape.kind == ModuleKind::projector) return projector_parameters(shape);
  const std::int64_t tables = shape.tied_embeddings ? 1 : 2;
  const std::int64_t input =
      shape.kind == ModuleKind::encoder ? patch_parameters(shape) : tables * vocabulary_rows * shape.hidden;
  return shape.layers * layer_parameters(shape) + norm_parameters(shape) + position_parameters(shape) + input;
}

double forward_flops_per_token(const TransformerShape& shape, std::int64_t vocabulary_rows) {
  // A matmul costs 2 FLOPs per weight. Scores and context each cost 2·s FLOPs per element of the query; every query
  // head attends, whatever the number of key-value heads.
  if (shape.kind == ModuleKind::projector) return 2.0 * static_cast<double>(projector_weights(shape));
  const double matmul_weights = static_cast<double>(layer_matmul_weights(shape));
  const double attention = 4.0 * static_cast<double>(shape.sequence) * static_cast<double>(own_q_size(shape));
  const double layers = static_cast<double>(shape.layers) * (2.0 * matmul_weights + attention);
  const std::int64_t ends = shape.kind == ModuleKind::encoder ? shape.input_width : vocabulary_rows;
  return layers + 2.0 * static_cast<double>(shape.hidden) * static_cast<double>(ends);
}

double model_flops_per_sample(const TransformerShape& shape, std::int64_t vocabulary_rows) {
  return 3.0 * static_cast<double>(shape.sequence) * forward_flops_per_token(shape, vocabulary_rows);
}

std::string_view name_of(ModuleKind kind) {
  switch (kind) {
    case ModuleKind::language: return "language";
    case ModuleKind::encoder: return "encoder";
    case ModuleKind::projector: return "projector";
  }
  bug("a kind of module without a name");
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
    case Position::rope_2d: return "rope-2d";
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
