// Collectives on a topology: which algorithm and protocol the communication library takes, and what that puts on
// the links. The choice is the curve (catalog/nodes) of least time, as NCCL's and RCCL's tuners choose.
//
// For n members on N nodes, g per node (the least over the nodes), S bytes of the full payload:
//
//   algorithm  operations                  bytes per member inside      over its NIC            steps
//   ring       all-reduce                  2S(n−1)/n · f                2S(n−1)/n / g           2(n−1), 2(N−1) of NICs
//              all-gather, reduce-scatter  S(n−1)/n · f                 S(n−1)/n / g            n−1, N−1 of NICs
//              broadcast, reduce           S · f                        S / g                   n−1, N−1 of NICs
//   tree       all-reduce                  2S                           t·S / g                 2(g−1), 2·log2 N
//   nvls       all-reduce                  S (the switch adds)          t·S / g                 2, 2·log2 N
//   direct     all-to-all                  S(n'−1)/n, n' = own node     S(n−g)/n                n'−1, n−g
//   p2p        a message                   S (same node)                S (else)                1
//
// f = 1 in one node, (g−1)/g across nodes (one hop in g leaves the node). Rings of several channels leave the node
// through all g NICs, hence the division. A double binary tree carries t = 2 (Sanders, Speck, Träff 2009), t = 1
// on two nodes, where each is a leaf of one tree and the root of the other.
//
// On a mesh a member has one link to each of the n'−1 others of its node. Rings are striped over all of them, so that
// its rate inside is n'−1 times that of a link (MeshLinks::all), or all follow one cycle and use the link to the next
// member only (MeshLinks::one). All-to-all uses the link of every pair in any case. A message has that of its pair, or
// `stripes` links where it is one of several rings over the mesh (TASP 2509.26541: n'−1 cycles over n' members that
// have no link in common, each with its part of the bytes; they exist but for n' = 4 and 6, Tillson 1980).
//
// Time alone:  startup + max over classes of bytes / min(cap, link rate)
//   startup = base + steps inside · intra_hop + steps of NICs · nic_hop           (NCCL src/graph/tuning.cc)
//   cap     = links · peak × efficiency / (1 + √(pipeline_bytes / B)), B the bytes on that class
// The root comes from pipelining: B bytes in packets over a path take √(c·B) more than B/rate with the best packet.
// Beyond two nodes the NIC's cap of rings and trees that fill their nodes falls by `many_node_loss` per doubling.
#pragma once

#include <span>

#include "sim/cost/costs.h"

namespace meshweave {

// Where a group's members stand; all that a collective's cost depends on.
struct Placement {
  int members = 1;
  int nodes = 1;
  int least_per_node = 1;
  int most_per_node = 1;
};
Placement placement_of(const Cluster& cluster, std::span<const int> ranks);

// Achievable bytes/s per rank and direction: over `links` of its links inside the node, and over its NIC.
double intra_rate(const Cluster& cluster, int links);
double nic_rate(const Cluster& cluster);
// Time of a transfer that has its links for itself; bandwidth factors may lower the rates.
double transfer_seconds(const TransferCost& cost, double intra_rate, double nic_rate);
double transfer_seconds(const Cluster& cluster, const TransferCost& cost);

// `payload` is the full size S: the buffer of all-reduce, broadcast, reduce and all-to-all, the gathered result of an
// all-gather, the input of a reduce-scatter. A group of one costs nothing.
TransferCost collective_cost(const Cluster& cluster, OpKind kind, double payload, const Placement& placement,
                             MeshLinks mesh = MeshLinks::all);
// `stripes` counts inside a node of a mesh only, up to the links that a member has.
TransferCost message_cost(const Cluster& cluster, double bytes, int source, int destination, int stripes = 1);

}  // namespace meshweave
