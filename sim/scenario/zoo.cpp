#include "sim/scenario/zoo.h"

#include "sim/scenario/field_reader.h"

namespace meshweave {
namespace {

// Above every published model, and small enough that products of four of them stay exact in 128 bits and sums of
// bytes in 63.
constexpr std::int64_t largest_width = 1 << 22;
constexpr std::int64_t largest_vocabulary = 1 << 26;
constexpr std::int64_t largest_sequence = 1 << 28;
constexpr std::int64_t most_layers = 10'000;

constexpr std::string_view transformers = "a language model or an encoder (this is a projector)";
constexpr std::string_view languages = "a language model (\"kind\": \"language\")";
constexpr std::string_view encoders = "an encoder (\"kind\": \"encoder\")";

// What a kind implies where no key says otherwise.
void set_defaults(TransformerShape& shape) {
  shape.mask = shape.kind == ModuleKind::encoder ? AttentionMask::full : AttentionMask::causal;
}

void transformer_fields(Fields& f, TransformerShape& shape) {
  f.integer({"hidden", "width of the residual stream", Need::required}, shape.hidden, {1, largest_width});
  f.integer({"layers", "transformer layers", Need::required}, shape.layers, {1, most_layers});
  f.integer({"heads", "attention heads", Need::required}, shape.heads, {1, 1 << 16});
  f.integer({"kv_heads", "heads of keys and values; default: heads", Need::derived}, shape.kv_heads, {1, 1 << 16});
  f.integer({"head_dim", "width of one head; default: hidden / heads", Need::derived}, shape.head_dim, {1, 1 << 16});
  f.choice({"norm", "kind of normalisation"}, shape.norm, {Norm::layer_norm, Norm::rms_norm});
  f.choice({"mask", "which positions a token attends to; default: causal, or full for an encoder", Need::derived},
           shape.mask, {AttentionMask::causal, AttentionMask::full});
  f.choice({"position", "how positions enter; rope-2d: by the rows and columns of an encoder's items"}, shape.position,
           {Position::rope, Position::learned, Position::none, Position::rope_2d});
  f.flag({"fused_attention", "one attention kernel instead of scores, softmax, dropout and context"},
         shape.fused_attention);
  f.number({"dropout", "probability at attention, projection, second MLP matmul and embedding"}, shape.dropout,
           {0, 0.999});
  f.integer({"max_positions", "rows of a learned position table; default: sequence, or item_tokens", Need::derived},
            shape.max_positions, {1, largest_sequence});
  f.number({"published_parameters", "the published parameter count; 0 where there is none"}, shape.published_parameters,
           {0, 1e18});
}

void language_fields(Fields& f, TransformerShape& shape) {
  f.integer({"vocabulary", "tokens of the vocabulary, before padding", Need::required}, shape.vocabulary,
            {1, largest_vocabulary});
  f.integer({"vocabulary_multiple", "the vocabulary is padded to a multiple of this times tp"},
            shape.vocabulary_multiple, {1, 1 << 20});
  f.flag({"tied_embeddings", "the output layer uses the embedding table"}, shape.tied_embeddings);
  f.integer({"sequence", "tokens per sample; a scenario may set its own", Need::derived}, shape.sequence,
            {1, largest_sequence});
}

void encoder_fields(Fields& f, TransformerShape& shape) {
  f.integer({"input_width", "features of an input token, such as a flattened patch of an image", Need::required},
            shape.input_width, {1, largest_width});
  f.integer({"item_tokens", "input tokens of an item (an image, a stretch of sound)", Need::derived}, shape.sequence,
            {1, largest_sequence});
  f.integer(
      {"item_columns", "rope-2d: tokens in a row of an item's grid; default: the grid is a square", Need::derived},
      shape.item_columns, {1, largest_sequence});
}

}  // namespace

void shape_fields(Fields& f, TransformerShape& shape) {
  f.text({"name", "what reports call the model", Need::absent}, shape.zoo);
  f.text({"source", "where the numbers were published", Need::absent}, shape.source);
  const ModuleKind before = shape.kind;
  f.choice({"kind", "encoder: of items; projector: two linear layers between an encoder and the language model"},
           shape.kind, {ModuleKind::language, ModuleKind::encoder, ModuleKind::projector});
  if (shape.kind != before) set_defaults(shape);
  f.where(shape.attends(), transformers, [&](Fields& g) { transformer_fields(g, shape); });
  f.integer(
      {"ffn", "inner width of the MLP; default: 4 · hidden, of a projector the language model's width", Need::derived},
      shape.ffn, {1, largest_width});
  f.choice({"activation", "of the MLP"}, shape.activation,
           {Activation::gelu, Activation::swiglu, Activation::squared_relu});
  f.choice({"biases", "which projections have biases"}, shape.biases, {Biases::none, Biases::qkv, Biases::all});
  f.where(shape.kind == ModuleKind::language, languages, [&](Fields& g) { language_fields(g, shape); });
  f.where(shape.kind == ModuleKind::encoder, encoders, [&](Fields& g) { encoder_fields(g, shape); });
}

void fill_shape(TransformerShape& shape) {
  if (!shape.attends()) return;
  if (shape.kv_heads == 0) shape.kv_heads = shape.heads;
  if (shape.head_dim == 0 && shape.heads > 0) shape.head_dim = shape.hidden / shape.heads;
  if (shape.ffn == 0) shape.ffn = 4 * shape.hidden;
  if (shape.max_positions == 0) shape.max_positions = shape.sequence;
}

TransformerShape read_zoo(std::string_view name) {
  Reading reading;
  TransformerShape shape;
  FieldReader::read_entry(reading, Library::models, name, [&](Fields& fields) { shape_fields(fields, shape); });
  reading.diagnostics.throw_if_any();
  shape.zoo = name;
  fill_shape(shape);
  return shape;
}

}  // namespace meshweave
