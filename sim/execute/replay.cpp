#include "sim/execute/replay.h"

#include "sim/base/error.h"
#include "sim/execute/analytic_network.h"
#include "sim/execute/child_process.h"
#include "sim/execute/flow_solver.h"
#include "sim/execute/perturbations.h"
#include "sim/execute/replay_loop.h"
#include "sim/execute/simgrid_network.h"

namespace meshweave {

std::string_view name_of(Executor executor) { return executor == Executor::analytic ? "analytic" : "simgrid"; }

ReplayResult replay(const ReplayInput& input, Executor executor, const InterruptFlag* interrupt) {
  const Cluster& cluster = input.costs->cluster;
  const std::vector<Perturbation> none;
  const Perturbations perturbations(input.perturb != nullptr ? *input.perturb : none, cluster, input.seed);
  if (executor == Executor::analytic) {
    AnalyticNetwork network(cluster, perturbations);
    return ReplayLoop(input, perturbations, network, interrupt).play();
  }
  ensure(input.classes->count() == input.program->ranks(), "the simgrid executor plays every rank");
  load_flow_solver();
  return replay_in_child(
      [&] {
        const std::unique_ptr<Network> network = make_simgrid_network(cluster, perturbations);
        return ReplayLoop(input, perturbations, *network, interrupt).play();
      },
      interrupt);
}

}  // namespace meshweave
