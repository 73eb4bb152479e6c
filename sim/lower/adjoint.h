// The backward of a block, derived from its forward: one adjoint rule per op kind, walked in reverse.
//
// An activation's gradient contributions are summed and reduced once, behind the last:
//   all-gather → reduce-scatter (the gradient is partial)     reduce-scatter → all-gather
//   all-reduce → identity                                     a column-parallel input → all-reduce
// Weight gradients accumulate into main gradients and stay partial there. They follow the communication of their
// data gradient, or go to a part of their own (`split_weight`).
//
// What a rule reads of the forward is saved, unless it is marked to be made again: gathers always, the attention
// core under recompute `selective`; `full` re-emits the whole block first and saves its input alone.
#pragma once

#include "sim/lower/block.h"

namespace meshweave {

void derive_backward(const ModuleContext& context, Block& block, Recompute recompute, bool split_weight);

}  // namespace meshweave
