// The flows that play a transfer on a network of single links: who sends how much to whom.
//
//   NVSwitch  each member sends its inner bytes to its next node mate (only the ports count, not the partner)
//   mesh      each member sends an equal part to each of its next l mates, at an equal part of the cap: l is
//             TransferCost::intra_links, or all k − 1 where it has fewer; 1 is a plain ring
//   NIC       each member sends its NIC bytes to the member of the same lane on the next node, or of the same
//             position among the members there when no lane is equal
//   message   one flow from the sender to the receiver; over l links of a mesh, equal flows to the receiver and the
//             lanes behind it, cyclically, without the sender
//
// Alone on their links, the flows end when transfer_seconds() says. Example: 4 members on 2 nodes of a mesh, 3 MB
// inside and 2 MB over the NIC each: 4 inner flows of 3 MB (one mate each) and 4 NIC flows of 2 MB.
#pragma once

#include <span>
#include <vector>

#include "sim/cost/costs.h"

namespace meshweave {

struct Flow {
  int source = 0;
  int destination = 0;
  double bytes = 0;
  double cap = 0;    // bytes/s
  bool nic = false;  // between nodes
};

std::vector<Flow> collective_flows(const Cluster& cluster, const TransferCost& cost, std::span<const int> members);
// LinkGraph::route() has the links of a flow, on all of which it counts.
std::vector<Flow> message_flows(const Cluster& cluster, const TransferCost& cost, int source, int destination);

}  // namespace meshweave
