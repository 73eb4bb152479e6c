// The plan: what each module's ranks hold. Grids, pipeline stages, and the numbers that the lowering needs.
//
// Virtual stage g of a module with PP·VPP stages stands on pipeline rank g % PP as its chunk g / PP.
#pragma once

#include <vector>

#include "sim/layout/process_grid.h"
#include "sim/scenario/scenario.h"

namespace meshweave {

struct Stage {
  int first_layer = 0;
  int layers = 0;
  bool embedding = false;  // first stage
  bool head = false;       // last stage: final norm, logits, loss
};

struct ModulePlan {
  std::size_t module = 0;  // vertex of the graph
  ProcessGrid grid;
  std::vector<Stage> stages;  // by virtual stage, pp·vpp entries
  int micro_batches = 0;

  const Stage& stage(int pp, int chunk) const {
    return stages[static_cast<std::size_t>(chunk * grid.degree(Axis::pp) + pp)];
  }
};

struct Plan {
  std::vector<ModulePlan> modules;
  int ranks = 0;
};

// The scenario must have passed the reader's checks.
Plan make_plan(const Scenario& scenario);

}  // namespace meshweave
