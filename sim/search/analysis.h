// The TSP paper's comparison of strategies (strategies.h), counted on what each one's program executes
// (sim/report/strategy_figures.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/json_text.h"
#include "sim/report/strategy_figures.h"
#include "sim/search/strategies.h"

namespace meshweave {

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
