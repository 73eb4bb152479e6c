// What the TSP paper's comparison of strategies counts on one run: memory, received bytes, FLOPs, exposed communication
// and step time of its program, beside the closed forms.
//
// Bytes and FLOPs are those of a step, per device: means over all ranks. Memory is that of the fullest rank at its
// peak.
#pragma once

#include <array>

#include "sim/report/closed_forms.h"
#include "sim/report/report.h"
#include "sim/report/traffic.h"

namespace meshweave {

struct StrategyFigures {
  int ranks = 0;
  int dp = 1;
  std::int64_t global_batch = 0, micro_batch = 0, micro_batches = 0, sequence = 0;
  double step_time_s = 0;
  double host_s = 0;                              // idle, as the host had not issued the next op; mean over ranks
  std::array<double, purpose_count> exposed_s{};  // as all_purposes; means over ranks
  MemoryReport memory;
  Traffic traffic;
  double flops = 0;
  LayerWork layer;       // executed, as defined for the closed forms
  LayerWork layer_form;  // the closed forms
  double states_form = 0;

  double tokens() const { return static_cast<double>(global_batch) * static_cast<double>(sequence); }
  double exposed_total_s() const;
};

StrategyFigures figures_of(const RunView& run, const Report& report);

}  // namespace meshweave
