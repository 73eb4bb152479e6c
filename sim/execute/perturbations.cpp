#include "sim/execute/perturbations.h"

#include <algorithm>
#include <cmath>

#include "sim/base/random.h"

namespace meshweave {
namespace {

bool touches(const Perturbation& p, const Cluster& cluster, int rank) {
  switch (p.target) {
    case PerturbTarget::rank: return p.index == rank;
    case PerturbTarget::link:
      // The links of a mesh have a node mate at their other end, whose striped messages they may carry.
      if (p.link == "intra" && cluster.node.fabric == NodeFabric::mesh) {
        return cluster.node_of(rank) == cluster.node_of(p.index);
      }
      return p.index == rank;
    case PerturbTarget::node: return cluster.node_of(rank) == p.index;
    case PerturbTarget::jitter: return true;
  }
  return false;
}

}  // namespace

Perturbations::Perturbations(const std::vector<Perturbation>& perturb, const Cluster& cluster, std::uint64_t seed)
    : compute_(static_cast<std::size_t>(cluster.ranks()), 1.0), intra_(compute_), nic_(compute_), seed_(seed) {
  double variance = 0;
  for (const Perturbation& p : perturb) {
    const auto index = static_cast<std::size_t>(p.index);
    switch (p.target) {
      case PerturbTarget::rank: compute_[index] *= p.compute_time; break;
      case PerturbTarget::node:
        for (std::size_t rank = 0; rank < compute_.size(); ++rank) {
          if (cluster.node_of(static_cast<int>(rank)) == p.index) compute_[rank] *= p.compute_time;
        }
        break;
      case PerturbTarget::link:
        (p.link == "nic" ? nic_ : intra_)[index] *= p.bandwidth;
        links_differ_ = true;
        break;
      case PerturbTarget::jitter:
        variance += p.sigma * p.sigma;  // independent log-normal factors multiply
        break;
    }
  }
  sigma_ = std::sqrt(variance);
}

Picoseconds Perturbations::duration(Picoseconds price, int rank, std::uint32_t op, int step) const {
  double factor = compute_[static_cast<std::size_t>(rank)];
  if (sigma_ > 0) {
    const std::uint64_t index =
        static_cast<std::uint64_t>(rank) << 33 | static_cast<std::uint64_t>(op) << 1 | static_cast<std::uint64_t>(step);
    const double normal = random_normal(seed_, stream_key("jitter"), index);
    factor *= std::exp(sigma_ * normal - sigma_ * sigma_ / 2);
  }
  return Picoseconds{std::llround(static_cast<double>(price.count()) * factor)};
}

std::vector<std::uint64_t> perturbation_keys(const std::vector<Perturbation>& perturb, const Cluster& cluster) {
  std::vector<std::uint64_t> keys(static_cast<std::size_t>(cluster.ranks()), 0);
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    const bool perturbed = std::any_of(perturb.begin(), perturb.end(), [&](const Perturbation& p) {
      return touches(p, cluster, static_cast<int>(rank));
    });
    if (perturbed) keys[rank] = rank + 1;
  }
  return keys;
}

}  // namespace meshweave
