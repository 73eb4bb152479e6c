// A cluster: equal nodes of GPUs joined by a fabric. Rank r sits on node r / gpus, lane r % gpus.
//
//   GPU ── NVSwitch or xGMI mesh ── GPU        inside a node
//   GPU ── NIC ── leaf switch of its rail ── spine ── leaf ── NIC ── GPU        between nodes
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topologies/device.h"

namespace meshweave {

// How the GPUs of one node are joined.
enum class NodeFabric : std::uint8_t {
  nvswitch,  // every GPU has one port of `link_bytes_per_s` into a non-blocking switch
  mesh,      // a link of `link_bytes_per_s` between every pair of GPUs (xGMI)
};

enum class CollectiveAlgorithm : std::uint8_t {
  ring,
  tree,    // double binary tree between nodes, a chain inside each
  nvls,    // the NVSwitch adds and multicasts (NVLink SHARP); between nodes a tree
  direct,  // every pair exchanges its part: all-to-all
  p2p,     // one message
};
enum class CollectiveProtocol : std::uint8_t { ll, ll128, simple };
// "ring", …; "LL", "LL128", "Simple". The views end with a null character.
std::string_view name_of(CollectiveAlgorithm);
std::string_view name_of(CollectiveProtocol);

// One way in which the communication library runs an operation, with the constants of its time; the equation is in
// sim/cost/collective_cost.h.
struct CollectiveCurve {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  CollectiveProtocol protocol = CollectiveProtocol::simple;
  double base_s = 0;
  double intra_hop_s = 0;       // per step inside a node
  double nic_hop_s = 0;         // per step between nodes
  double intra_efficiency = 0;  // share of the link's peak that large messages reach
  double nic_efficiency = 0;    // the same of the NIC; 0: not used between nodes
  double pipeline_bytes = 0;    // bytes on a link class for which filling the pipeline doubles the time
  int least_nodes = 1;          // 2: between nodes only
  int least_members = 1;        // of the group on one node, from which the library picks it
};

struct CollectiveModel {
  std::vector<CollectiveCurve> curves;
  std::string source;
};

struct NodeModel {
  std::string name;
  std::string source;
  DeviceModel device;
  int gpus = 8;
  NodeFabric fabric = NodeFabric::nvswitch;
  double link_bytes_per_s = 0;  // peak per direction: per GPU (nvswitch) or per pair (mesh)
  double link_efficiency = 1;   // achievable share
  double nic_bytes_per_s = 0;   // peak per direction, one NIC per GPU
  double nic_efficiency = 1;
  CollectiveModel collectives;
};

// Between nodes: the NICs of lane i meet in the leaf switches of rail i, `nodes_per_leaf` nodes at each; leaves meet
// in spines. With oversubscription f, the uplinks of a leaf carry 1/f of what its NICs carry.
struct FabricModel {
  std::string name;
  std::string source;
  double port_bytes_per_s = 0;  // per GPU and direction; a slower port limits the NIC; 0: as fast as the NIC
  double oversubscription = 1;
  int nodes_per_leaf = 32;
  bool cross_rail = true;      // false (rails only): spines join leaves of one rail, no traffic between rails
  double many_node_loss = 0;   // share of the NIC's rate that a collective loses per doubling beyond 2 nodes
  double many_node_floor = 1;  // but never below this share
};

struct Cluster {
  NodeModel node;
  int nodes = 1;
  FabricModel fabric;

  int ranks() const { return nodes * node.gpus; }
  int node_of(int rank) const { return rank / node.gpus; }
  int lane_of(int rank) const { return rank % node.gpus; }
  // Peak of a GPU's way into the fabric: the slower of NIC and switch port.
  double nic_peak_bytes_per_s() const {
    return fabric.port_bytes_per_s > 0 ? std::min(node.nic_bytes_per_s, fabric.port_bytes_per_s) : node.nic_bytes_per_s;
  }
};

}  // namespace meshweave
