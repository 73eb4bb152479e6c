// The single changes of a layout by which a step may come to need less memory, as overrides of the scenario file.
//
// Cluster and global batch stay: what doubles a degree halves dp. A module of tp 8, pp 2, dp 48 with micro-batches of
// 2, without ZeRO and recomputation, gives
//   micro-batch 1, recompute selective, recompute full, zero 1, cp 2 with dp 24, tsp 8 in the place of tp 8,
//   tp 16 with dp 24, pp 4 with dp 24
// Not every one is possible: that is for the reader of scenarios to say.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario/reader.h"

namespace meshweave {

// Applied together, behind the overrides that the scenario was read with.
using Change = std::vector<Override>;

std::vector<Change> single_changes(const Scenario& scenario);

// The options that make the change: "--set /layout/language/tp=16 --set /layout/language/dp=24", quoted as a shell
// needs.
std::string option_text(const Change& change);

}  // namespace meshweave
