#include "sim/emulate/tiny.h"

#include <algorithm>
#include <numeric>

#include "sim/scenario/form_of.h"
#include "sim/scenario/reader.h"

namespace meshweave {

namespace {

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// What the layout divides stays divisible: given sizes are multiples of the least ones below.
void shrink_layers(TransformerShape& shape, const ModuleLayout& layout, int ranks_of_heads) {
  const bool shared = shape.kv_heads < shape.heads;
  const int shards = layout.weight_shards();
  const int least_heads = ranks_of_heads;  // key-value heads, one for each rank that has its own
  const bool several = shape.kv_heads > least_heads;
  shape.hidden = std::min<std::int64_t>(shape.hidden, 16);
  shape.kv_heads = least_heads * (several ? 2 : 1);
  shape.heads = shape.kv_heads * (shared ? 2 : 1);
  shape.head_dim = std::min<std::int64_t>(shape.head_dim, 4);
  shape.ffn = std::min(shape.ffn, std::int64_t{4} * shards);
}

void shrink_language(TransformerShape& shape, const ModuleLayout& layout, const Overlap& overlap,
                     std::int64_t least_sequence) {
  shrink_layers(shape, layout, layout.weight_shards() * layout.cp.ulysses);
  shape.vocabulary = std::min<std::int64_t>(shape.vocabulary, 30);
  // A divisor: the padded vocabulary does not grow.
  std::int64_t multiple = std::min<std::int64_t>(shape.vocabulary_multiple, 4);
  while (shape.vocabulary_multiple % multiple != 0) --multiple;
  shape.vocabulary_multiple = multiple;
  // Parts of the sequence, in two segments each where it is sharded.
  const int parts = layout.cp.degree * layout.tsp.degree;
  const std::int64_t pieces =
      std::int64_t{layout.tp} * (overlap.tp ? overlap.tp_chunks : 1) * parts * (parts > 1 ? 2 : 1);
  shape.sequence = std::min(shape.sequence, rounded_up(least_sequence, pieces));
  shape.max_positions = std::min(shape.max_positions, shape.sequence);
}

void shrink_stages(TransformerShape& shape, ModuleLayout& layout) {
  int least = 0;
  for (const int layers : layout.stages) {
    if (layers > 0 && (least == 0 || layers < least)) least = layers;
  }
  shape.layers = 0;
  for (int& layers : layout.stages) {
    layers = layers == 0 ? 0 : layers == least ? 1 : 2;
    shape.layers += layers;
  }
}

// A graph's encoders and projectors in the form of a scenario.
class SmallGraph {
 public:
  SmallGraph(const Scenario& scenario, ScenarioForm& form, std::int64_t micro)
      : graph_(scenario.model), sink_(sink_module(graph_)), layout_(scenario.layout_by_module[sink_]), form_(form) {
    for (std::size_t v = 0; v < num_vertices(graph_); ++v) {
      if (graph_[v].shape.kind == ModuleKind::encoder) shrink_encoder(v, micro);
      if (graph_[v].shape.kind == ModuleKind::projector) shrink_projector(v);
    }
  }

  // Positions of the language model that hold rows of items, and the least sequence that has as much text beside them.
  std::int64_t positions() const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < form_.edges.size(); ++i) sum += rows_of_edge(i);
    return sum;
  }
  std::int64_t least_sequence() const {
    const bool text = item_positions(graph_) < graph_[sink_].shape.sequence;
    return std::max<std::int64_t>(8, positions() * (text ? 2 : 1));
  }

  // Behind the language model: shares of its sequence, and widths of encoders that feed it without a projector.
  void fit_language() {
    TransformerShape& language = form_.modules[sink_].second.shape;
    const std::int64_t given = graph_[sink_].shape.hidden;
    std::int64_t merged = 1;
    for (const EdgeOfModules e : inputs_of(graph_, sink_)) merged = std::lcm(merged, graph_[e].merge);
    language.hidden = std::min(given, rounded_up(16, merged));
    for (const EdgeOfModules e : inputs_of(graph_, sink_)) {
      const std::size_t from = source(e, graph_);
      if (graph_[from].shape.kind == ModuleKind::encoder)
        form_.modules[from].second.shape.hidden = language.hidden / graph_[e].merge;
    }
    for (std::size_t i = 0; i < form_.edges.size(); ++i) {
      if (form_.edges[i].to == graph_[sink_].name)
        form_.edges[i].fraction = static_cast<double>(rows_of_edge(i)) / static_cast<double>(language.sequence);
    }
  }

 private:
  std::size_t vertex(const std::string& name) const {
    std::size_t v = 0;
    while (graph_[v].name != name) ++v;
    return v;
  }

  // Rows per sample of an edge into the language model; 0 of another.
  std::int64_t rows_of_edge(std::size_t i) const {
    const EdgeForm& edge = form_.edges[i];
    if (edge.to != graph_[sink_].name) return 0;
    std::size_t from = vertex(edge.from);
    if (graph_[from].shape.kind == ModuleKind::projector) from = source(inputs_of(graph_, from).front(), graph_);
    const ModuleForm& encoder = form_.modules[from].second;
    return encoder.items * encoder.shape.sequence / edge.merge;
  }

  void shrink_encoder(std::size_t v, std::int64_t micro) {
    ModuleForm& form = form_.modules[v].second;
    TransformerShape& shape = form.shape;
    std::int64_t merged = 1;
    for (const EdgeOfModules e : outputs_of(graph_, v)) merged = std::lcm(merged, graph_[e].merge);
    shape.sequence = std::min(shape.sequence, 2 * merged);
    shape.max_positions = std::min(shape.max_positions, shape.sequence);
    if (shape.position == Position::rope_2d) shape.item_columns = shape.sequence % 2 == 0 ? 2 : 1;
    const std::int64_t cp = form.cp_items == CpItems::divided ? layout_.cp.degree : 1;
    const std::int64_t least = cp / std::gcd(cp, micro);
    form.items = form.items > least ? 2 * least : least;
    shape.layers = std::min<std::int64_t>(shape.layers, 2);
    shape.input_width = std::min<std::int64_t>(shape.input_width, 6);
    const bool pads = graph_[v].shape.padded_heads > 0;
    shrink_layers(shape, layout_, layout_.tp);
    if (pads) shape.heads = shape.kv_heads = shape.heads - 1;
  }

  void shrink_projector(std::size_t v) {
    TransformerShape& shape = form_.modules[v].second.shape;
    shape.ffn = std::min(shape.ffn, std::int64_t{4} * layout_.tp);
  }

  const ModuleGraph& graph_;
  std::size_t sink_;
  const ModuleLayout& layout_;
  ScenarioForm& form_;
};

}  // namespace

Scenario tiny_scenario(const Scenario& given) {
  ScenarioForm form = form_of(given);
  Scenario& s = form.scenario;
  const std::size_t sink = sink_module(given.model);
  const int micro_batches = given.micro_batches(sink);
  s.batch.micro = std::min<std::int64_t>(s.batch.micro, 2);
  SmallGraph small(given, form, s.batch.micro);
  TransformerShape& language = form.modules[sink].second.shape;
  ModuleLayout& layout = form.layouts.front().second.layout;
  shrink_language(language, layout, s.overlap, small.least_sequence());
  shrink_stages(language, layout);
  small.fit_language();
  const int shards = layout.dp / layout.optimizer_instances;
  layout.optimizer_instances = std::min(layout.optimizer_instances, 2);
  layout.dp = layout.optimizer_instances * std::min(shards, 2);
  layout.rank_offset = layout.rank_count = 0;
  const std::int64_t step = s.batch.micro * layout.dp;
  s.batch.global = step * std::min(micro_batches, 2 * layout.pp * layout.vpp);
  if (s.batch.text_only.samples > 0) s.batch.text_only = {step, s.batch.global};
  s.optimizer.bucket_parameters = std::min<std::int64_t>(s.optimizer.bucket_parameters, 1000);
  const auto ranks = static_cast<int>(layout.model_ranks()) * layout.dp;
  int gpus = std::min(s.cluster.node.gpus, ranks);
  while (ranks % gpus != 0) --gpus;
  s.cluster.node.gpus = gpus;
  s.cluster.nodes = ranks / gpus;
  for (auto& [name, module] : form.modules) {
    module.shape.zoo.clear();
    module.shape.source.clear();
    module.shape.published_parameters = 0;
  }
  Scenario tiny = parse_scenario(resolved_text(form), given.file);
  tiny.inputs = given.inputs;
  return tiny;
}

}  // namespace meshweave
