// The forward of a transformer module as blocks: embedding, layer, head. Every op is a kernel that a GPU launches.
//
// Layer (Megatron-LM's pre-norm order; [G] all-gather and [S] reduce-scatter under sequence parallelism, where plain
// tensor parallelism has nothing and an all-reduce):
//   norm1 [G] qkv rope attention projection [S] residual norm2 [G] fc1 activation fc2 [S] residual
#pragma once

#include "sim/lower/block.h"

namespace meshweave {

// The activation between blocks: [sequence, batch, hidden], a sequence share under sequence parallelism.
TensorSpec hidden_spec(const ModuleContext& context);

// The sum over the rank's tokens.
TensorSpec loss_spec(const ModuleContext& context);

Block record_embedding(const ModuleContext& context);
Block record_layer(const ModuleContext& context);
// Final norm, logits over the vocabulary shard, cross entropy with its two all-reduces (Megatron-LM's
// vocabulary-parallel cross entropy).
Block record_head(const ModuleContext& context);

}  // namespace meshweave
