#include "tests/support/dense_scenario.h"

namespace meshweave::testing {

Scenario dense_scenario(const DenseOptions& o) {
  Scenario s;
  s.name = "test";
  const int ranks = o.tp * o.cp.degree * o.tsp.degree * o.pp * o.dp;
  s.cluster.node.name = "test-node";
  s.cluster.node.gpus = ranks < 8 ? ranks : 8;
  s.cluster.nodes = ranks / s.cluster.node.gpus;
  Module module;
  module.name = "language";
  TransformerShape& m = module.shape;
  m.hidden = o.hidden;
  m.layers = std::int64_t{o.layers_per_stage} * o.pp * o.vpp;
  m.heads = o.heads;
  m.kv_heads = o.kv_heads;
  m.head_dim = o.hidden / o.heads;
  m.ffn = o.ffn;
  m.vocabulary = o.vocabulary;
  m.sequence = m.max_positions = o.sequence;
  m.activation = o.activation;
  m.norm = o.norm;
  m.biases = o.biases;
  m.position = o.position;
  m.fused_attention = o.fused_attention;
  m.tied_embeddings = o.tied;
  m.dropout = o.dropout;
  boost::add_vertex(module, s.model);
  ModuleLayout layout;
  layout.tp = o.tp;
  layout.cp = o.cp;
  layout.tsp = o.tsp;
  layout.keep = o.keep;
  layout.pp = o.pp;
  layout.vpp = o.vpp;
  layout.dp = o.dp;
  layout.sequence_parallel = o.sequence_parallel;
  layout.zero = o.zero;
  layout.optimizer_instances = o.optimizer_instances;
  layout.recompute = o.recompute;
  layout.stages.assign(static_cast<std::size_t>(o.pp * o.vpp), o.layers_per_stage);
  layout.rank_count = ranks;
  s.layout_by_module.push_back(layout);
  s.batch.micro = o.micro;
  s.batch.global = o.micro * o.dp * o.micro_batches;
  s.pass = o.pass;
  s.schedule.kind = o.schedule;
  s.schedule.defer_weight_gradients = o.defer_weight_gradients;
  s.overlap.grad_reduce = o.grad_reduce;
  s.overlap.param_gather = o.param_gather;
  s.overlap.tp = o.tp_chunks > 0;
  if (s.overlap.tp) s.overlap.tp_chunks = o.tp_chunks;
  s.overlap.depth = o.depth;
  s.overlap.cp = o.cp_overlap;
  return s;
}

}  // namespace meshweave::testing
