// Where the virtual stages of a pipeline stand: on which pipeline rank, and as which of its chunks.
//
// Stage v computes behind stage v − 1. Megatron-LM's placement gives rank p the stages p, p + P, p + 2P, …; a V-shaped
// one turns round at the last rank. With two ranks of two chunks:
//   interleaved   stage 0 1 2 3  →  rank 0 1 0 1, chunk 0 0 1 1
//   V             stage 0 1 2 3  →  rank 0 1 1 0, chunk 0 0 1 1
#pragma once

#include <vector>

namespace meshweave {

struct StagePlace {
  int pp = 0;     // coordinate of the ranks that hold the stage
  int chunk = 0;  // the how-manieth of their stages it is
  bool operator==(const StagePlace&) const = default;
};

class Placement {
 public:
  Placement() : Placement({{0, 0}}) {}
  // `of_stage`: by virtual stage. Every rank has as many stages as any other, numbered without a gap; else bug().
  explicit Placement(std::vector<StagePlace> of_stage);
  static Placement interleaved(int ranks, int chunks);

  int stages() const { return static_cast<int>(of_stage_.size()); }
  int ranks() const { return ranks_; }
  int chunks() const { return stages() / ranks_; }
  const StagePlace& of(int stage) const { return of_stage_[static_cast<std::size_t>(stage)]; }
  int stage(int pp, int chunk) const { return stage_at_[static_cast<std::size_t>(pp * chunks() + chunk)]; }
  // How many pipeline ranks further, cyclically, the next stage stands: 1 ≤ result ≤ ranks.
  int step_to_next(int stage) const;

 private:
  std::vector<StagePlace> of_stage_;
  std::vector<int> stage_at_;  // by rank and chunk
  int ranks_ = 1;
};

}  // namespace meshweave
