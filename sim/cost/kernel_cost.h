// Time of one kernel on a device, from the work of its op.
//
//   time = floor + max(FLOPs / rate of this shape, bytes / achievable bandwidth)
//
// Matmul of m×n×k (batch of b), P peak FLOP/s, C compute units, tile tm×tn of efficiency e, split of k in s parts:
//   waves  = ceil(ceil(m/tm)·ceil(n/tn)·b·s / C), a partial last wave smoothed by `wave_smoothing`
//   time   = waves · 2·tm·tn·(k/s + k0) / (e·P/C)  [+ split overhead + 4·s·m·n·b bytes when s > 1]
// and the library is taken to pick the tile and s ∈ {1, 2, 4, 8} of least time. Products with more than
// `large_flops` lose `large_loss` of the rate per doubling (clocks under load, caches outgrown). A weight gradient adds
// into the main gradient: its epilogue reads and writes that, 2·bytes − 2·m·n more than a plain one at streaming rate.
//
// Fused attention of b·h heads, a query block of B rows visiting K keys on average (under a causal mask half of all
// and some masked ones) at the efficiency e of its head dimension d, K0 keys of overhead per block:
// A contiguous shard of the sequence sees its own share of the pairs, and its last block visits that of the last query.
//   items  = b·h·ceil(q/B)        work item = c·B·(K + K0)·d FLOPs, c = 4 forward, 10 backward
//   time   = (items/C + tail·longest/mean) · item / (e·P/C)
// (list scheduling: the slowest unit ends at most one longest item after the mean; Graham 1969).
//
// Everything else is bound by memory: bytes / (peak bandwidth × the share of its kind). The loss counts the passes over
// the logits that an eager framework makes.
#pragma once

#include "sim/program/program.h"
#include "sim/program/work.h"
#include "topologies/device.h"

namespace meshweave {

struct MatmulCost {
  double seconds = 0;  // without the floor
  MatmulTile tile;     // the choice behind it
  int split_k = 1;
  double waves = 0;
  bool memory_bound = false;
};

// `peak` is the peak rate of the operands' type, `element_bytes` their size.
MatmulCost matmul_cost(const DeviceModel& device, double peak, double bytes, std::int64_t m, std::int64_t n,
                       std::int64_t k, std::int64_t batch);

struct AttentionShape {
  double heads = 0;  // batch × query heads
  double q_length = 0;
  double kv_length = 0;
  double head_dim = 0;
  bool causal = false;
  bool backward = false;
  double visible = -1;  // share of the pairs that these queries see of these keys; < 0: half when causal, else all
};
// Without the floor and without the sustained factor.
double attention_seconds(const DeviceModel& device, double bytes, const AttentionShape& shape);

// The share of the peak bandwidth that memory-bound kernels of this kind reach.
double bandwidth_share(const MemoryModel& memory, OpKind kind);

struct KernelCost {
  double seconds = 0;  // everything included
  std::string text;    // what it follows from, for people; empty unless asked for
};

KernelCost kernel_cost(const DeviceModel& device, const Program& program, const OpSpec& spec, bool explain);

}  // namespace meshweave
