// Makes a trace (sim/trace) of a simulated run.
//
// A rank that was folded into a class is shown with its class's times, its own coordinates and its own peers; a
// peer that is not shown is represented by the first rank of its class, if that one is.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "sim/report/run_view.h"
#include "sim/trace/trace.h"

namespace meshweave {

struct TraceRequest {
  bool all_ranks = false;
  std::vector<int> ranks;  // shown when `all_ranks` is off; empty: one per class
  // From and to on the axis of the trace: slices that overlap it are kept.
  std::optional<std::pair<Picoseconds, Picoseconds>> window;
};

Trace build_trace(const RunView& run, const TraceRequest& request, std::string_view tool);

}  // namespace meshweave
