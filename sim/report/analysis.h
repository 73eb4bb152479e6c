// The TSP paper's comparison of strategies (strategies.h), counted on what each one's program executes: memory,
// received bytes, FLOPs, exposed communication and step time, beside the closed forms.
//
// Bytes and FLOPs are those of a step, per device: means over all ranks. Memory is that of the fullest rank at its
// peak.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "sim/base/json_text.h"
#include "sim/report/closed_forms.h"
#include "sim/report/report.h"
#include "sim/report/strategies.h"
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

// A strategy, and its figures or why it is no possible scenario.
struct StrategyRow {
  Strategy strategy;
  std::optional<StrategyFigures> figures;
  std::vector<Diagnostic> refused;
};

// Throws InputError where the strategy makes no scenario.
using SimulateStrategy = std::function<StrategyFigures(const Strategy&)>;

// What `simulate` throws beside InputError ends it.
StrategyRow analyze_strategy(const Strategy& strategy, const SimulateStrategy& simulate);

// The page's head says what is compared: `scenario` is the one whose layout is varied.
std::string analysis_page(const Scenario& scenario, int devices, const std::vector<StrategyRow>& rows);
// Writes "strategies": an array of one object per row, into the object that is open.
void write_analysis(JsonText& out, const std::vector<StrategyRow>& rows);

// "/layout/language/tp: 8 does not divide the number of attention heads, 4 (1, 2, 4 do)".
std::string reason_of(const StrategyRow& row);

}  // namespace meshweave
