// The blocks of a module, derived once and stamped for every layer and micro-batch of every stage.
#pragma once

#include "sim/lower/block.h"

namespace meshweave {

struct ModuleBlocks {
  Block embedding, layer, head;
};

// Records the blocks, derives their backward in training, splits what overlaps, and interns the specs.
ModuleBlocks make_blocks(ProgramBuilder& builder, const ModuleContext& context);

}  // namespace meshweave
