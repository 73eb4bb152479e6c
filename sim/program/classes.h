// Rank classes: ranks that no executor can tell apart.
//
// Two ranks are of one class only when body, device, perturbation, placement signature per group and peer and,
// recursively, the classes of the members of their groups and of their peers are equal: the coarsest stable
// partition (colour refinement). GPT-3 175B on TP8·PP8·DP16: 8 classes of 128 ranks, one per stage.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/program/program.h"

namespace meshweave {

struct RankClasses {
  std::vector<std::uint32_t> class_of;  // by rank; classes are numbered by their smallest rank
  std::vector<int> representative;      // smallest rank of the class
  std::vector<int> size;
  int count() const { return static_cast<int>(size.size()); }
};

// `initial` gives each rank a key of what else may tell it apart (device, perturbation). `placement` gives the
// signature of a sequence of ranks: collectives and transfers over equal signatures cost the same.
RankClasses fold_ranks(const Program& program, const std::vector<std::uint64_t>& initial,
                       const std::function<std::uint64_t(std::span<const int>)>& placement);
// Every rank its own class.
RankClasses all_ranks(const Program& program);

}  // namespace meshweave
