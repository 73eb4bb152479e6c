#include "sim/execute/perturbations.h"

#include <bit>
#include <cmath>

#include "sim/base/random.h"

namespace meshweave {

Perturbations::Perturbations(const std::vector<Perturbation>& perturb, const Cluster& cluster,
                             std::uint64_t seed)
    : compute_(static_cast<std::size_t>(cluster.ranks()), 1.0),
      intra_(compute_),
      nic_(compute_),
      seed_(seed) {
  double variance = 0;
  for (const Perturbation& p : perturb) {
    const auto index = static_cast<std::size_t>(p.index);
    switch (p.target) {
      case PerturbTarget::rank:
        compute_[index] *= p.compute_time;
        break;
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
    const std::uint64_t index = static_cast<std::uint64_t>(rank) << 33 | static_cast<std::uint64_t>(op) << 1 |
                                static_cast<std::uint64_t>(step);
    const double normal = random_normal(seed_, stream_key("jitter"), index);
    factor *= std::exp(sigma_ * normal - sigma_ * sigma_ / 2);
  }
  return Picoseconds{std::llround(static_cast<double>(price.count()) * factor)};
}

std::vector<std::uint64_t> perturbation_keys(const std::vector<Perturbation>& perturb,
                                             const Cluster& cluster) {
  const Perturbations perturbations(perturb, cluster, 0);
  std::vector<std::uint64_t> keys(static_cast<std::size_t>(cluster.ranks()));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const int rank = static_cast<int>(i);
    std::uint64_t key = mix_bits(std::bit_cast<std::uint64_t>(perturbations.compute_factor(rank)));
    key = mix_bits(key ^ std::bit_cast<std::uint64_t>(perturbations.intra_factor(rank)));
    key = mix_bits(key ^ std::bit_cast<std::uint64_t>(perturbations.nic_factor(rank)));
    keys[i] = perturbations.sigma() > 0 ? i : key;
  }
  return keys;
}

}  // namespace meshweave
