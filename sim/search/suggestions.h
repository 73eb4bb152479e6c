// What helps where a step does not fit into memory: every single change of the layout, simulated.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/json_text.h"
#include "sim/report/report.h"
#include "sim/search/single_changes.h"

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

// The end of the page of a step that does not fit: the single changes with which it does, or all that were tried.
std::string suggestions_text(const Suggestions& suggestions);

// Writes into the object of the report of a step that does not fit:
//   suggestions           the single changes that fit, the shortest step first: `set`, the values of the --set options
//                         that make the change, then step_time_s, samples_per_s, tokens_per_s, peak_memory_bytes,
//                         headroom_bytes and verdict of the step with it, from the analytic executor
//   insufficient_changes  those that do not fit either, in the same form, the one that comes closest first
//   impossible_changes    how many more make no scenario
// All three are absent where it fits.
void write_suggestions(JsonText& out, const Suggestions& suggestions);

}  // namespace meshweave
