#include "sim/report/stages.h"

#include "sim/base/error.h"

namespace meshweave {

StageIndex::StageIndex(const Program& program) {
  std::vector<std::uint32_t> first_of_module;
  const std::size_t modules = program.grid_of_module.size();
  for (std::size_t m = 0; m < modules; ++m) {
    first_of_module.push_back(static_cast<std::uint32_t>(stages_.size()));
    for (int stage = 0; stage < program.module_grid(m).degree(Axis::pp); ++stage) {
      StageReport report;
      report.module = m;
      report.stage = stage;
      stages_.push_back(report);
    }
  }
  // A rank that several modules share belongs to the last of them, the one that the others feed.
  stage_of_rank_.resize(static_cast<std::size_t>(program.ranks()), no_op);
  for (int rank = 0; rank < program.ranks(); ++rank) {
    for (std::size_t m = 0; m < modules; ++m) {
      const ProcessGrid& grid = program.module_grid(m);
      if (!grid.contains(rank)) continue;
      const int stage = grid.coordinate(rank, Axis::pp);
      stage_of_rank_[static_cast<std::size_t>(rank)] = first_of_module[m] + static_cast<std::uint32_t>(stage);
    }
    ensure(stage_of_rank_[static_cast<std::size_t>(rank)] != no_op, "a rank outside every module's grid");
  }
}

}  // namespace meshweave
