// The prices of a program on a cluster: a duration for every compute op, a transfer for every communication.
//
// A transfer alone takes startup + max over link classes of bytes / min(cap, link rate): sim/execute has the two
// networks that play it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/base/time.h"
#include "sim/program/communicators.h"
#include "sim/program/program.h"
#include "sim/scenario/scenario.h"

namespace meshweave {

// Each member of the group loads its links with these bytes, in both directions.
struct TransferCost {
  Picoseconds startup{0};
  double intra_bytes = 0;  // per member over its links inside the node
  double nic_bytes = 0;    // per member over its NIC
  int intra_links = 1;     // on a mesh: links over which a member spreads them, where it has as many mates
  double intra_cap = 0;    // bytes/s that the algorithm reaches at most on each class
  double nic_cap = 0;
  const char* algorithm = "";  // "ring", "tree", "nvls", "direct", "p2p"
  const char* protocol = "";
};

struct Costs {
  std::vector<std::vector<Picoseconds>> compute;  // by body and op, before perturbations; 0 for communications
  std::vector<TransferCost> transfers;
  // By op spec (collectives): its first entry in `transfers`, one for each distinct placement of its group.
  std::vector<std::uint32_t> transfer_base;              // transfers[transfer_base[spec] + placement]
  std::vector<std::vector<std::uint32_t>> placement_of;  // by group and instance: index of its placement
  // Point to point: a message of `bytes` between two ranks, striped as OpAttributes::stripes says.
  TransferCost message(double bytes, int source, int destination, int stripes = 1) const;
  const TransferCost& transfer(std::uint32_t spec, std::uint16_t group, std::uint32_t instance) const {
    return transfers[transfer_base[spec] + placement_of[group][instance]];
  }
  Cluster cluster;
  Picoseconds host_issue{0};
  double slowdown = 1;              // compute under a resident communication
  bool free_communication = false;  // cost model `fixed`: every transfer takes no time
};

// `spec` and what it is based on: for `explain`.
struct CostOrigin {
  std::string text;    // "matmul 4096×3072×12288: tile 128×256, 3 waves, 62 % of 989 TFLOP/s"
  std::string source;  // of the constants
};

Costs price(const Program& program, const Communicators& communicators, const Scenario& scenario);
CostOrigin explain_cost(const Program& program, const Scenario& scenario, const OpSpec& spec);
// Ranks with equal signatures cost the same in a collective over them: nodes spanned and members per node.
std::uint64_t placement_signature(const Cluster& cluster, std::span<const int> ranks);

}  // namespace meshweave
