#include "sim/lower/module_blocks.h"

#include "sim/lower/adjoint.h"
#include "sim/lower/pieces.h"
#include "sim/lower/transformer.h"

namespace meshweave {

ModuleBlocks make_blocks(ProgramBuilder& builder, const ModuleContext& context) {
  ModuleBlocks blocks{record_embedding(context), record_layer(context), record_head(context)};
  if (context.scenario->pass == Pass::train) {
    const bool split = context.scenario->schedule.defer_weight_gradients;
    derive_backward(context, blocks.embedding, Recompute::none, split);
    derive_backward(context, blocks.layer, context.layout().recompute, split);
    derive_backward(context, blocks.head, Recompute::none, split);
  }
  if (context.scenario->overlap.tp) split_tensor_parallel(context, blocks.layer, context.scenario->overlap.tp_chunks);
  for (Block* block : {&blocks.embedding, &blocks.layer, &blocks.head}) finish(builder, *block);
  return blocks;
}

}  // namespace meshweave
