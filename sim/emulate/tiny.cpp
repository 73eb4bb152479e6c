#include "sim/emulate/tiny.h"

#include <algorithm>

namespace meshweave {

namespace {

void shrink_shape(TransformerShape& shape, const ModuleLayout& layout, const Overlap& overlap) {
  const bool shared = shape.kv_heads < shape.heads;
  const bool several = shape.kv_heads > layout.tp;
  shape.hidden = 16;
  shape.kv_heads = layout.tp * (several ? 2 : 1);
  shape.heads = shape.kv_heads * (shared ? 2 : 1);
  shape.head_dim = 4;
  shape.ffn = std::int64_t{4} * layout.tp;
  shape.vocabulary = 30;
  shape.vocabulary_multiple = 4;
  const std::int64_t pieces = layout.tp * (overlap.tp ? overlap.tp_chunks : 1);
  shape.sequence = (8 + pieces - 1) / pieces * pieces;
  shape.max_positions = shape.sequence;
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
  layout.rank_count = layout.tp * layout.pp * layout.dp;
  s.batch.micro = std::min<std::int64_t>(s.batch.micro, 2);
  s.batch.global = s.batch.micro * layout.dp * std::min(micro_batches, 2 * layout.pp * layout.vpp);
  s.optimizer.bucket_parameters = 1000;
  int gpus = std::min(s.cluster.node.gpus, layout.rank_count);
  while (layout.rank_count % gpus != 0) --gpus;
  s.cluster.node.gpus = gpus;
  s.cluster.nodes = layout.rank_count / gpus;
  s.perturb.clear();
  s.published.reset();
  return s;
}

}  // namespace meshweave
