#include "sim/execute/analytic_network.h"

#include <algorithm>
#include <limits>

#include "sim/base/error.h"
#include "sim/cost/collective_cost.h"
#include "sim/cost/transfer_flows.h"

namespace meshweave {
namespace {

// Links inside the node that each member uses: a switch's port; on a mesh those over which the transfer is spread,
// but not more than there are mates on the node with the fewest members (of at least two).
int intra_links(const Cluster& cluster, const Transfer& transfer) {
  if (cluster.node.fabric != NodeFabric::mesh) return 1;
  if (transfer.message) return transfer.cost->intra_links;
  int fewest = cluster.node.gpus;
  for (const int rank : transfer.ranks) {
    const int node = cluster.node_of(rank);
    const auto here = std::count_if(transfer.ranks.begin(), transfer.ranks.end(),
                                    [&](int other) { return cluster.node_of(other) == node; });
    if (here > 1) fewest = std::min(fewest, static_cast<int>(here));
  }
  return std::min(transfer.cost->intra_links, fewest - 1);
}

// The ranks whose links the transfer uses. Stripes of a message lead to further mates.
std::vector<int> ranks_at_links(const Cluster& cluster, const Transfer& transfer) {
  std::vector<int> ranks(transfer.ranks.begin(), transfer.ranks.end());
  if (!transfer.message || transfer.cost->intra_links == 1) return ranks;
  for (const Flow& flow : message_flows(cluster, *transfer.cost, ranks[0], ranks[1])) ranks.push_back(flow.destination);
  return ranks;
}

}  // namespace

double AnalyticNetwork::flow_seconds(const Transfer& transfer) const {
  double intra = intra_rate(cluster_, intra_links(cluster_, transfer));
  double nic = nic_rate(cluster_);
  if (perturbations_.links_differ()) {
    double slowest_intra = std::numeric_limits<double>::infinity();
    double slowest_nic = slowest_intra;
    for (const int rank : ranks_at_links(cluster_, transfer)) {
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
  const auto [known, fresh] = collectives_.try_emplace({transfer.cost, transfer.ranks.data()}, Picoseconds{0});
  if (fresh) known->second = picoseconds_from_seconds(flow_seconds(transfer));
  return begin + known->second;
}

void AnalyticNetwork::start(std::uint32_t, const Transfer&) { bug("an analytic transfer ends without being started"); }

Picoseconds AnalyticNetwork::advance(Picoseconds limit, std::vector<std::uint32_t>&) { return limit; }

}  // namespace meshweave
