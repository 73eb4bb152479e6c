// Pipeline stages of a program's ranks: which entry of Report::stages a rank belongs to.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/report/report.h"

namespace meshweave {

class StageIndex {
 public:
  explicit StageIndex(const Program& program);

  std::size_t of(int rank) const { return stage_of_rank_[static_cast<std::size_t>(rank)]; }
  // One entry per module and pipeline coordinate, without figures.
  std::vector<StageReport> empty_stages() const { return stages_; }

 private:
  std::vector<StageReport> stages_;
  std::vector<std::uint32_t> stage_of_rank_;
};

}  // namespace meshweave
