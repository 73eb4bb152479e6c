// The simgrid network: transfers are flows (sim/cost/transfer_flows.h) over the links of the cluster that
// compete for bandwidth, solved by SimGrid. Rates are max-min fair under each flow's cap (SimGrid's model
// CM02: Casanova, Marchal 2002; no latencies, no cross-traffic).
//
// A flow that has all its links for itself needs no solver: it runs at min(cap, slowest link). SimGrid gets a
// flow, with the bytes that are left, when another one joins it on a link; this is exact, and most flows of a
// training step never meet another.
//
// SimGrid's engine is one per process and cannot be made twice: see replay_in_child().
#pragma once

#include <memory>

#include "sim/execute/network.h"
#include "sim/execute/perturbations.h"

namespace meshweave {

enum class SolverUse : std::uint8_t {
  shared_links,  // only for flows that meet another
  always,        // for every flow
};

std::unique_ptr<Network> make_simgrid_network(const Cluster& cluster, const Perturbations& perturbations,
                                              SolverUse use = SolverUse::shared_links);

}  // namespace meshweave
