// What transformer layers are made of, whatever shards them: linear layers, norms, residuals, the attention core.
#pragma once

#include "sim/lower/block.h"

namespace meshweave {

// A linear layer's weight [outputs, inputs] and, where the shape has one, its bias. The rank's part: of the outputs
// (column) or of the inputs (row), over tp or tsp.
struct Linear {
  Value weight = no_value;
  Value bias = no_value;
};

// `packed`: the outputs of the parts that the weight holds side by side; empty for one.
Linear column_parallel(BlockRecorder& r, const std::string& name, std::int64_t outputs, std::int64_t inputs, bool bias,
                       const std::vector<std::int64_t>& packed);
Linear row_parallel(BlockRecorder& r, const std::string& name, std::int64_t outputs, std::int64_t inputs, bool bias);

// x·Wᵀ (+ bias) into `outputs`; with `added` the sum with it, in its place.
void matmul(BlockRecorder& r, const std::string& label, Value x, const Linear& linear, std::vector<Value> outputs,
            Value added = no_value);

Value norm(BlockRecorder& r, const std::string& name, Value x);
// out = residual + dropout(y + bias).
Value residual_add(BlockRecorder& r, const std::string& name, const std::string& label, Value residual, Value y,
                   Value bias);
// dropout(x), with its mask; x itself when the shape has no dropout.
Value dropout(BlockRecorder& r, const std::string& name, Value x, ReEmit re_emit);

// Mask, dropout and scale of the module's attention.
OpAttributes attention_attributes(const ModuleContext& context);
// Attention of the rank's queries over keys and values. `visible`: OpAttributes::visible.
Value fused_attention(BlockRecorder& r, Value q, Value k, Value v, double visible);
Value unfused_attention(BlockRecorder& r, Value q, Value k, Value v);

}  // namespace meshweave
