// The analytic network: every transfer has its links for itself.
//
//   end = begin + max over link classes of bytes / min(cap, rate of the slowest member's links)
//
// On a mesh the links inside the node are those over which the transfer is spread (TransferCost::intra_links).
#pragma once

#include <unordered_map>
#include <utility>

#include "sim/execute/network.h"
#include "sim/execute/perturbations.h"

namespace meshweave {

class AnalyticNetwork final : public Network {
 public:
  AnalyticNetwork(const Cluster& cluster, const Perturbations& perturbations)
      : cluster_(cluster), perturbations_(perturbations) {}

  std::optional<Picoseconds> end_alone(const Transfer& transfer, Picoseconds begin) override;
  void start(std::uint32_t id, const Transfer& transfer) override;
  Picoseconds advance(Picoseconds limit, std::vector<std::uint32_t>& ended) override;

 private:
  struct HashPair {
    std::size_t operator()(const std::pair<const TransferCost*, const int*>& key) const {
      return std::hash<const void*>{}(key.first) * 31 + std::hash<const void*>{}(key.second);
    }
  };

  double flow_seconds(const Transfer& transfer) const;

  const Cluster& cluster_;
  const Perturbations& perturbations_;
  // By cost and members: time that the bytes of a collective take. Both outlive the network.
  std::unordered_map<std::pair<const TransferCost*, const int*>, Picoseconds, HashPair> collectives_;
};

}  // namespace meshweave
