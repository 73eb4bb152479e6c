#include "sim/emulate/tiny.h"

#include <algorithm>

#include "sim/scenario/field_writer.h"
#include "sim/scenario/scenario_fields.h"

namespace meshweave {

namespace {

// What the layout divides stays divisible: given sizes are multiples of the least ones below.
void shrink_shape(TransformerShape& shape, const ModuleLayout& layout, const Overlap& overlap) {
  const bool shared = shape.kv_heads < shape.heads;
  const int shards = layout.weight_shards();
  const int least_heads = shards * layout.cp.ulysses;  // key-value heads, one for each rank that has its own
  const bool several = shape.kv_heads > least_heads;
  shape.hidden = std::min<std::int64_t>(shape.hidden, 16);
  shape.kv_heads = least_heads * (several ? 2 : 1);
  shape.heads = shape.kv_heads * (shared ? 2 : 1);
  shape.head_dim = std::min<std::int64_t>(shape.head_dim, 4);
  shape.ffn = std::min(shape.ffn, std::int64_t{4} * shards);
  shape.vocabulary = std::min<std::int64_t>(shape.vocabulary, 30);
  // A divisor: the padded vocabulary does not grow.
  std::int64_t multiple = std::min<std::int64_t>(shape.vocabulary_multiple, 4);
  while (shape.vocabulary_multiple % multiple != 0) --multiple;
  shape.vocabulary_multiple = multiple;
  // Parts of the sequence, in two segments each where it is sharded.
  const int parts = layout.cp.degree * layout.tsp.degree;
  const std::int64_t pieces =
      std::int64_t{layout.tp} * (overlap.tp ? overlap.tp_chunks : 1) * parts * (parts > 1 ? 2 : 1);
  shape.sequence = std::min(shape.sequence, (8 + pieces - 1) / pieces * pieces);
  shape.max_positions = std::min(shape.max_positions, shape.sequence);
  shape.zoo.clear();
  shape.source.clear();
  shape.published_parameters = 0;
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

std::string resolved_json_of(const Scenario& scenario) {
  ScenarioForm form;
  form.scenario = scenario;
  if (scenario.cost.kind == CostKind::model) form.scenario.cost = ScenarioForm().scenario.cost;
  form.seed = static_cast<std::int64_t>(scenario.seed);
  const Module& module = scenario.model[0];
  form.modules.emplace_back(module.name, module.shape);
  form.layouts.emplace_back(module.name, LayoutForm()).second.layout = scenario.layout_by_module[0];
  return format_json(FieldWriter::write([&](Fields& fields) { scenario_fields(fields, form); }));
}

}  // namespace

Scenario tiny_scenario(const Scenario& scenario) {
  Scenario s = scenario;
  ModuleLayout& layout = s.layout_by_module[0];
  const int micro_batches = s.micro_batches(0);
  shrink_shape(s.model[0].shape, layout, s.overlap);
  shrink_stages(s.model[0].shape, layout);
  const int shards = layout.dp / layout.optimizer_instances;
  layout.optimizer_instances = std::min(layout.optimizer_instances, 2);
  layout.dp = layout.optimizer_instances * std::min(shards, 2);
  layout.rank_count = static_cast<int>(layout.model_ranks()) * layout.dp;
  s.batch.micro = std::min<std::int64_t>(s.batch.micro, 2);
  s.batch.global = s.batch.micro * layout.dp * std::min(micro_batches, 2 * layout.pp * layout.vpp);
  s.optimizer.bucket_parameters = std::min<std::int64_t>(s.optimizer.bucket_parameters, 1000);
  int gpus = std::min(s.cluster.node.gpus, layout.rank_count);
  while (layout.rank_count % gpus != 0) --gpus;
  s.cluster.node.gpus = gpus;
  s.cluster.nodes = layout.rank_count / gpus;
  s.perturb.clear();
  s.published.reset();
  s.resolved_json = resolved_json_of(s);
  return s;
}

}  // namespace meshweave
