// A device: peak rates, memory, and the fitted constants of its kernel-time models. The equations that use them
// are in sim/cost; the constants live in catalog/*.json with their sources.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace meshweave {

// One tile shape of the matmul model: a wave of m×n tiles runs at `efficiency` of the device's peak.
struct MatmulTile {
  int m = 0;
  int n = 0;
  double efficiency = 0;
};

// Matmul time = floor + max(bytes / achievable bandwidth, min over tiles and split-K of waves × tile time); the
// equation is in sim/cost/kernel_cost.h.
struct MatmulModel {
  std::vector<MatmulTile> tiles;
  double k_overhead = 0;              // extra k per tile: prologue and epilogue
  double split_k_overhead_s = 0;      // extra launch when split over k
  std::string source;
};

// Fused attention: rate = peak × efficiency × saturation, saturation = s/(s + half_sequence), causal FLOPs counted
// as half of the full square.
struct AttentionModel {
  double forward_efficiency = 0;
  double backward_efficiency = 0;
  double half_sequence = 0;           // tokens at which the rate is half of its limit
  std::string source;
};

struct DeviceModel {
  std::string name;
  std::string source;
  double memory_bytes = 0;            // allocatable
  double framework_bytes = 0;         // context, communicator buffers, allocator slack: a named constant
  double memory_error = 0;            // stated relative error of a predicted peak: "tight" within it
  double peak_flops_per_s = 0;        // dense BF16 = FP16
  double peak_fp32_flops_per_s = 0;
  int compute_units = 0;              // SMs or CUs
  double memory_bytes_per_s = 0;      // peak
  double memory_efficiency = 0;       // achievable share for streaming kernels
  double kernel_floor_s = 0;          // shortest kernel
  double host_issue_s = 0;            // host time per op when launched eagerly
  double sustained_factor = 1;        // rate of compute-bound kernels under sustained load
  double communication_slowdown = 1;  // compute takes this much longer while a communication kernel is resident
  double host_link_bytes_per_s = 0;   // one direction, device to host
  MatmulModel matmul;
  AttentionModel attention;
};

}  // namespace meshweave
