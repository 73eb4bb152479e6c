// The strategies that the TSP paper (arXiv 2604.26294) compares, as changes of a scenario's layout at one number of
// devices D = tp·cp·tsp. The rest of the layout stays.
//
//   DP                 dp multiplied by D; the global batch grows where a rank would have no sample, or an
//                      interleaved schedule too few micro-batches
//   TP                 tp D
//   SP                 cp D, with the scenario's cp settings where it has cp, else all-gather in zigzag order
//   TP+SP (T=…, Σ=…)   tp T × cp Σ for every T·Σ = D with T, Σ > 1
//   TSP                tsp D, with the scenario's tsp settings
//
// Not every one is possible: that is for the reader of scenarios to say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/search/single_changes.h"

namespace meshweave {

enum class StrategyKind : std::uint8_t { dp, tp, sp, tp_sp, tsp };
std::string_view name_of(StrategyKind);  // "TP+SP"

struct Strategy {
  StrategyKind kind = StrategyKind::dp;
  int tensor = 1;                  // parts of every weight: T, or D of TSP
  int sequence = 1;                // parts of the sequence: Σ, or D of TSP
  std::string name;                // "TP+SP (T=4, Σ=2)"
  std::string layout;              // "tp 4 × cp 2 all-gather"
  Change change;                   // behind the overrides that the scenario was read with
  std::vector<std::string> notes;  // what else was changed, for people
};

struct StrategySettings {
  int devices = 0;                       // D; 0: that of the scenario. pp and dp stay, the cluster follows
  std::optional<std::int64_t> sequence;  // in the place of the scenario's
  std::optional<std::int64_t> micro;     // in the place of the scenario's, with as many micro-batches
};

// tp·cp·tsp of the layout.
int devices_of(const Scenario& scenario);

// In the order above. Throws InputError where there is nothing to compare: several modules, a single device, or ranks
// that are no whole nodes.
std::vector<Strategy> strategies(const Scenario& scenario, const StrategySettings& settings);

}  // namespace meshweave
