#include "sim/layout/plan.h"

#include "sim/base/error.h"

namespace meshweave {

namespace {

// Ulysses ranks stand inside those of the ring; a folded axis that is not named takes the place of tp.
std::string grid_order(std::string order) {
  if (order.find("tsp") == std::string::npos) order = "tsp-" + order;
  if (const std::size_t cp = order.find("cp"); cp != std::string::npos) order.insert(cp, "ulysses-");
  return order;
}

Degrees degrees_of(const ModuleLayout& layout) {
  return {.tp = layout.tp,
          .ulysses = layout.cp.ulysses,
          .cp = layout.cp.ring(),
          .tsp = layout.tsp.degree,
          .ep = layout.ep,
          .dp = layout.dp,
          .pp = layout.pp};
}

}  // namespace

Plan make_plan(const Scenario& scenario) {
  Plan plan;
  plan.ranks = scenario.cluster.ranks();
  for (std::size_t module = 0; module < scenario.layout_by_module.size(); ++module) {
    const ModuleLayout& layout = scenario.layout_by_module[module];
    ModulePlan p{module,
                 ProcessGrid(degrees_of(layout), grid_order(layout.order), layout.rank_offset),
                 Placement::interleaved(layout.pp, layout.vpp),
                 {},
                 scenario.micro_batches(module)};
    int layer = 0;
    for (std::size_t g = 0; g < layout.stages.size(); ++g) {
      p.stages.push_back({{{module, layer, layout.stages[g], g == 0, g + 1 == layout.stages.size()}}});
      layer += layout.stages[g];
    }
    ensure(static_cast<int>(p.stages.size()) == p.placement.stages(), "stages do not fit pp and vpp");
    plan.modules.push_back(std::move(p));
  }
  return plan;
}

}  // namespace meshweave
