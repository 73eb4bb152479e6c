// The perturbations of a scenario, resolved per rank: slow ranks, nodes and links, and jitter.
//
// A compute op of a perturbed rank takes duration × compute factor × exp(σ·N − σ²/2), N standard normal and
// the exponent's second term so chosen that the mean stays: the same (seed, rank, op, step) draws the same N
// in every run.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/time.h"
#include "sim/scenario/scenario.h"

namespace meshweave {

class Perturbations {
 public:
  Perturbations(const std::vector<Perturbation>& perturb, const Cluster& cluster, std::uint64_t seed);

  // Whether any compute op of the rank differs from its price.
  bool slows(int rank) const { return sigma_ > 0 || compute_[static_cast<std::size_t>(rank)] != 1; }
  Picoseconds duration(Picoseconds price, int rank, std::uint32_t op, int step) const;
  double compute_factor(int rank) const { return compute_[static_cast<std::size_t>(rank)]; }
  // Factors on the bandwidth of the rank's links.
  double intra_factor(int rank) const { return intra_[static_cast<std::size_t>(rank)]; }
  double nic_factor(int rank) const { return nic_[static_cast<std::size_t>(rank)]; }
  bool links_differ() const { return links_differ_; }
  double sigma() const { return sigma_; }

 private:
  std::vector<double> compute_, intra_, nic_;  // by rank
  bool links_differ_ = false;
  double sigma_ = 0;
  std::uint64_t seed_ = 0;
};

// A key per rank for fold_ranks: perturbed ranks differ from all others, so that what they cause can be told
// from what others cause. Jitter perturbs all ranks.
std::vector<std::uint64_t> perturbation_keys(const std::vector<Perturbation>& perturb, const Cluster& cluster);

}  // namespace meshweave
