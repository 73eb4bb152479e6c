// Scenarios made in C++ for tests: a dense language model on whole nodes, without files.
#pragma once

#include "sim/scenario/scenario.h"

namespace meshweave::testing {

struct DenseOptions {
  int tp = 1, pp = 1, vpp = 1, dp = 1;
  ContextParallel cp;
  Folded tsp;
  Keep keep = Keep::nothing;
  int layers_per_stage = 1;  // per virtual stage
  int micro_batches = 1;
  std::int64_t micro = 1;
  bool sequence_parallel = false;
  int zero = 0;
  int optimizer_instances = 1;
  Recompute recompute = Recompute::none;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  bool defer_weight_gradients = false;
  bool fused_attention = true;
  double dropout = 0;
  bool tied = true;
  Position position = Position::learned;
  Activation activation = Activation::gelu;
  Norm norm = Norm::layer_norm;
  Biases biases = Biases::all;
  std::int64_t hidden = 64, heads = 8, kv_heads = 8, ffn = 256, sequence = 32, vocabulary = 1000;
  Pass pass = Pass::train;
  bool grad_reduce = true, param_gather = true;
  int tp_chunks = 0;  // 0: no overlap of tensor parallelism
  int depth = 1;
  bool cp_overlap = true;
};

// A cluster of one-GPU-per-rank nodes of 8 H100-like GPUs is assumed; ranks = tp·cp·tsp·pp·dp.
Scenario dense_scenario(const DenseOptions& options);

}  // namespace meshweave::testing
