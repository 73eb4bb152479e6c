// A cluster with round numbers, so that expected values can be derived by hand.
#pragma once

#include "topologies/cluster.h"

namespace meshweave {

// `nodes` of 4 GPUs. Links 100 GB/s, NICs 10 GB/s, all efficiencies 1, no latencies, no pipelines; ring, direct and
// p2p curves.
inline Cluster small_cluster(NodeFabric fabric, int nodes) {
  Cluster cluster;
  cluster.node.gpus = 4;
  cluster.node.fabric = fabric;
  cluster.node.link_bytes_per_s = 100e9;
  cluster.node.nic_bytes_per_s = 10e9;
  cluster.nodes = nodes;
  for (const auto algorithm : {CollectiveAlgorithm::ring, CollectiveAlgorithm::direct, CollectiveAlgorithm::p2p}) {
    CollectiveCurve curve;
    curve.algorithm = algorithm;
    curve.intra_efficiency = 1;
    curve.nic_efficiency = 1;
    cluster.node.collectives.curves.push_back(curve);
  }
  return cluster;
}

}  // namespace meshweave
