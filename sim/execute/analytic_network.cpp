#include "sim/execute/analytic_network.h"

#include <algorithm>
#include <limits>

#include "sim/base/error.h"
#include "sim/cost/collective_cost.h"

namespace meshweave {
namespace {

// Share of a rank's links inside the node that the transfer uses: all of a switch's port; on a mesh one link
// to each other member of the node with the fewest (but at least two).
double share_of_intra_links(const Cluster& cluster, const Transfer& transfer) {
  if (cluster.node.fabric != NodeFabric::mesh || cluster.node.gpus < 2) return 1;
  const double links = cluster.node.gpus - 1;
  if (transfer.message) return 1 / links;
  int fewest = cluster.node.gpus;
  for (const int rank : transfer.ranks) {
    const int node = cluster.node_of(rank);
    const auto here = std::count_if(transfer.ranks.begin(), transfer.ranks.end(),
                                    [&](int other) { return cluster.node_of(other) == node; });
    if (here > 1) fewest = std::min(fewest, static_cast<int>(here));
  }
  return (fewest - 1) / links;
}

}  // namespace

double AnalyticNetwork::flow_seconds(const Transfer& transfer) const {
  double intra = intra_rate(cluster_);
  double nic = nic_rate(cluster_);
  if (transfer.cost->intra_bytes > 0) intra *= share_of_intra_links(cluster_, transfer);
  if (perturbations_.links_differ()) {
    double slowest_intra = std::numeric_limits<double>::infinity();
    double slowest_nic = slowest_intra;
    for (const int rank : transfer.ranks) {
      slowest_intra = std::min(slowest_intra, perturbations_.intra_factor(rank));
      slowest_nic = std::min(slowest_nic, perturbations_.nic_factor(rank));
    }
    intra *= slowest_intra;
    nic *= slowest_nic;
  }
  TransferCost flows = *transfer.cost;
  flows.startup = Picoseconds{0};
  return transfer_seconds(flows, intra, nic);
}

std::optional<Picoseconds> AnalyticNetwork::end_alone(const Transfer& transfer, Picoseconds begin) {
  if (transfer.message) return begin + picoseconds_from_seconds(flow_seconds(transfer));
  const auto [known, fresh] =
      collectives_.try_emplace({transfer.cost, transfer.ranks.data()}, Picoseconds{0});
  if (fresh) known->second = picoseconds_from_seconds(flow_seconds(transfer));
  return begin + known->second;
}

void AnalyticNetwork::start(std::uint32_t, const Transfer&) {
  bug("an analytic transfer ends without being started");
}

Picoseconds AnalyticNetwork::advance(Picoseconds limit, std::vector<std::uint32_t>&) {
  return limit;
}

}  // namespace meshweave
