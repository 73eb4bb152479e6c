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

// Tables of m, n, k, time_us.
void calibrate_matmul(DeviceModel device, const FitRequest& request);
// Tables of device, stack, mode, batch, seqlen, heads, kv_heads, head_dim, time_us.
void calibrate_attention(DeviceModel device, const FitRequest& request, const std::string& device_key);
// Tables of q_seqlen, num_q_heads, …, fwd_time_ms, bwd_time_ms.
void calibrate_attention_backward(DeviceModel device, const FitRequest& request);
// Tables of nccl-tests and rccl-tests, on one node or many; rows of other devices than `device_key` are left out.
void calibrate_collectives(Cluster cluster, const FitRequest& request, const std::string& device_key);

}  // namespace meshweave::calibrate
