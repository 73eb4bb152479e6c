// One fit per model: reads a measured table, prints the error on the rows that judge, and on request finds the
// constants of least error on the other rows. The objective is the mean of |log(predicted / measured)|.
#pragma once

#include <string>
#include <vector>

#include "topologies/cluster.h"

namespace meshweave::calibrate {

struct FitRequest {
  std::vector<std::string> tables;  // paths of the CSV files
  bool fit = false;                 // else only judge the catalog's constants
};

// Tables of m, n, k, time_us, of B, M, N, K, us, or of device, m, n, k, batch, tflops.
void calibrate_matmul(DeviceModel device, const FitRequest& request, const std::string& key);
// Tables of device, stack, mode, batch, seqlen, heads, kv_heads, head_dim, time_us.
void calibrate_attention(DeviceModel device, const FitRequest& request, const std::string& device_key);
// Tables of q_seqlen, num_q_heads, …, fwd_time_ms, bwd_time_ms.
void calibrate_attention_backward(DeviceModel device, const FitRequest& request);
// Tables of norms (norm_type, N, C, fwd_time_ms, bwd_time_ms; the rows of backend `key`) or of the layer's small
// kernels (op, tokens, tp, n_embd, ffn, n_head, n_kv_head, time_ms). Prints the median share of the peak bandwidth
// on the rows that fit, and the errors with the catalog's shares.
void judge_memory(const DeviceModel& device, const FitRequest& request, const std::string& key);
// Tables of nccl-tests and rccl-tests, on one node or many; rows of other devices than `device_key` are left out.
void calibrate_collectives(Cluster cluster, const FitRequest& request, const std::string& device_key);

}  // namespace meshweave::calibrate
