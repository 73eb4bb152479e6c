#include "sim/search/analysis.h"

#include "sim/base/error.h"

namespace meshweave {

StrategyRow analyze_strategy(const Strategy& strategy, const SimulateStrategy& simulate) {
  StrategyRow row;
  row.strategy = strategy;
  try {
    row.figures = simulate(strategy);
  } catch (const InputError& error) {
    row.refused = error.diagnostics();
  }
  return row;
}

std::string reason_of(const StrategyRow& row) {
  const Diagnostic& first = row.refused.front();
  return first.pointer.empty() ? first.message : first.pointer + ": " + first.message;
}

}  // namespace meshweave
