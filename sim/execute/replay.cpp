#include "sim/execute/replay.h"

#include "sim/base/error.h"
#include "sim/execute/analytic_network.h"
#include "sim/execute/perturbations.h"
#include "sim/execute/replay_loop.h"

namespace meshweave {

std::string_view name_of(Executor executor) {
  return executor == Executor::analytic ? "analytic" : "simgrid";
}

ReplayResult replay(const ReplayInput& input, Executor executor, const volatile int* interrupt) {
  const std::vector<Perturbation> none;
  const Perturbations perturbations(input.perturb != nullptr ? *input.perturb : none, input.costs->cluster, input.seed);
  if (executor == Executor::simgrid) bug("later");
  AnalyticNetwork network(input.costs->cluster, perturbations);
  return ReplayLoop(input, perturbations, network, interrupt).play();
}

}  // namespace meshweave
