#include "sim/layout/placement.h"

#include <algorithm>

#include "sim/base/error.h"

namespace meshweave {

Placement::Placement(std::vector<StagePlace> of_stage) : of_stage_(std::move(of_stage)) {
  for (const StagePlace& place : of_stage_) ranks_ = std::max(ranks_, place.pp + 1);
  ensure(!of_stage_.empty() && stages() % ranks_ == 0, "stages do not fill the pipeline ranks");
  stage_at_.assign(of_stage_.size(), -1);
  for (int stage = 0; stage < stages(); ++stage) {
    const StagePlace& place = of(stage);
    ensure(place.pp >= 0 && place.chunk >= 0 && place.chunk < chunks(), "a stage stands outside its pipeline");
    int& at = stage_at_[static_cast<std::size_t>(place.pp * chunks() + place.chunk)];
    ensure(at < 0, "two stages stand in one place");
    at = stage;
  }
}

Placement Placement::interleaved(int ranks, int chunks) {
  std::vector<StagePlace> of_stage;
  for (int stage = 0; stage < ranks * chunks; ++stage) of_stage.push_back({stage % ranks, stage / ranks});
  return Placement(std::move(of_stage));
}

int Placement::step_to_next(int stage) const {
  const int step = (of(stage + 1).pp - of(stage).pp + ranks_) % ranks_;
  return step == 0 ? ranks_ : step;
}

}  // namespace meshweave
