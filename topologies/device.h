// A device: peak rates, memory, and the fitted constants of its kernel-time models. The equations that use them
// are in sim/cost/kernel_cost.h; the constants live in catalog/devices/*.json with their sources.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace meshweave {

// One tile shape of the matmul model: every compute unit works at `efficiency` of its share of the peak.
struct MatmulTile {
  int m = 0;
  int n = 0;
  double efficiency = 0;
};

// Matmul time = floor + max(bytes / achievable bandwidth, min over tiles and split-K of waves × tile time).
struct MatmulModel {
  std::vector<MatmulTile> tiles;
  double k_overhead = 0;          // extra k per tile: prologue and epilogue
  double split_k_overhead_s = 0;  // extra time when a product is split over k
  double wave_smoothing = 0;      // 0: a partial last wave costs a whole one; 1: its share only
  double large_loss = 0;          // share of the rate lost for each doubling of the work above `large_flops`
  double large_flops = 0;         // 2·m·n·k above which clocks and caches lower the rate; 0 leaves it out
  std::string source;
};

// Fused attention: a block of query rows visits its keys and values at a rate that depends on the head dimension.
struct AttentionModel {
  struct Efficiency {
    int head_dim = 0;    // exact dimension; others take the nearest
    double forward = 0;  // share of the peak
    double backward = 0;
  };
  std::vector<Efficiency> efficiency;  // ascending head_dim
  int query_block = 128;               // query rows of one work item
  double forward_overhead_keys = 0;    // extra keys that an item costs: prologue, softmax tail, epilogue
  double backward_overhead_keys = 0;
  double tail = 0;               // items by which the slowest compute unit ends after the mean
  double causal_extra_keys = 0;  // masked keys that a causal item visits all the same
  std::string source;
};

// Shares of the peak memory bandwidth by kind of memory-bound kernel.
struct MemoryModel {
  double streaming = 0;  // operands of matmuls, copies, additions, casts, the loss, the optimizer
  double norm = 0;
  double norm_backward = 0;
  double elementwise = 0;  // activations, rotary embeddings, softmax, dropout
  std::string source;
};

struct DeviceModel {
  std::string name;
  std::string source;
  double memory_bytes = 0;      // allocatable
  double framework_bytes = 0;   // context, communicator buffers, allocator slack: a named constant
  double memory_error = 0;      // stated relative error of a predicted peak: "tight" within it
  double peak_flops_per_s = 0;  // dense BF16 = FP16
  double peak_fp32_flops_per_s = 0;
  int compute_units = 0;              // SMs or CUs
  double memory_bytes_per_s = 0;      // peak
  double kernel_floor_s = 0;          // shortest kernel
  double host_issue_s = 0;            // host time per op when launched eagerly: the framework's, all launches of the op
  double sustained_factor = 1;        // rate of compute-bound kernels under sustained load
  double communication_slowdown = 1;  // compute takes this much longer while a communication kernel is resident
  double host_link_bytes_per_s = 0;   // one direction, device to host
  MatmulModel matmul;
  AttentionModel attention;
  MemoryModel memory;
};

}  // namespace meshweave
