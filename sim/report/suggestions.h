// What helps where a step does not fit into memory: every single change of the layout, simulated.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "sim/report/report.h"
#include "sim/report/single_changes.h"

namespace meshweave {

struct TriedChange {
  Change change;
  double step_time_s = 0;
  double samples_per_s = 0;
  double tokens_per_s = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t headroom_bytes = 0;
  Verdict verdict = Verdict::fits;
};

struct Suggestions {
  Executor executor = Executor::analytic;  // that simulated the changes
  std::vector<TriedChange> fitting;        // the shortest step first
  std::vector<TriedChange> too_large;      // the one that comes closest to fitting first
  int impossible = 0;                      // changes that make no scenario

  std::size_t count() const { return fitting.size() + too_large.size() + static_cast<std::size_t>(impossible); }
};

struct SuggestionSettings {
  // The report of the scenario with a change; none where the change makes no scenario.
  std::function<std::optional<Report>(const Change&)> simulate;
  // Called before each; may be empty.
  std::function<void(std::size_t done, std::size_t all, const Change&)> on_progress;
};

// The scenario is the one that does not fit. What `simulate` throws ends it.
Suggestions suggest(const Scenario& scenario, const SuggestionSettings& settings);

}  // namespace meshweave
