// The plan: what each module's ranks hold. Grids, pipeline stages, and the numbers that the lowering needs.
#pragma once

#include <vector>

#include "sim/layout/placement.h"
#include "sim/layout/process_grid.h"
#include "sim/scenario/scenario.h"

namespace meshweave {

// What a virtual stage holds of one module.
struct StagePart {
  std::size_t module = 0;  // vertex of the graph
  int first_layer = 0;
  int layers = 0;
  bool embedding = false;  // the module's first layers, and what stands before them
  bool head = false;       // its last layers, and what stands behind them
};

struct Stage {
  std::vector<StagePart> parts;  // in the order of the forward

  const StagePart* part_of(std::size_t module) const {
    for (const StagePart& part : parts)
      if (part.module == module) return &part;
    return nullptr;
  }
};

struct ModulePlan {
  std::size_t module = 0;  // vertex of the graph
  ProcessGrid grid;
  Placement placement;
  std::vector<Stage> stages;  // by virtual stage
  int micro_batches = 0;

  const Stage& stage(int pp, int chunk) const { return stages[static_cast<std::size_t>(placement.stage(pp, chunk))]; }
};

struct Plan {
  std::vector<ModulePlan> modules;
  int ranks = 0;
};

// The scenario must have passed the reader's checks.
Plan make_plan(const Scenario& scenario);

}  // namespace meshweave
