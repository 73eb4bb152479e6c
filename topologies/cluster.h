// A cluster: equal nodes of GPUs joined by a fabric. Rank r sits on node r / gpus_per_node, lane r % gpus_per_node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/device.h"

namespace meshweave {

// How the GPUs of one node are joined.
enum class NodeFabric : std::uint8_t {
  nvswitch,  // every GPU has one port of `link_bytes_per_s` into a non-blocking switch
  mesh,      // a link of `link_bytes_per_s` between every pair of GPUs (xGMI)
};

struct NodeModel {
  std::string name;
  std::string source;
  DeviceModel device;
  int gpus = 8;
  NodeFabric fabric = NodeFabric::nvswitch;
  double link_bytes_per_s = 0;        // per direction: per GPU (nvswitch) or per pair (mesh)
  double link_efficiency = 1;         // achievable share
  double link_latency_s = 0;
  double nic_bytes_per_s = 0;         // per direction, one NIC per GPU
  double nic_efficiency = 1;
  double nic_latency_s = 0;
};

// Between nodes: NIC i of every node meets leaf (rail) i; rails meet in spines. With oversubscription f, the
// uplinks of a leaf carry 1/f of what its NICs carry. 0 spines ("rails only") forbid traffic between rails.
struct FabricModel {
  std::string name;
  std::string source;
  double oversubscription = 1;
  int nodes_per_leaf = 32;            // nodes whose NICs of one rail share a leaf switch
};

struct Cluster {
  NodeModel node;
  int nodes = 1;
  FabricModel fabric;

  int ranks() const { return nodes * node.gpus; }
  int node_of(int rank) const { return rank / node.gpus; }
  int lane_of(int rank) const { return rank % node.gpus; }
};

}  // namespace meshweave
