#include "sim/search/suggestions.h"

#include <algorithm>

namespace meshweave {
namespace {

TriedChange tried(const Change& change, const Report& report) {
  return {change,
          report.step_time_s,
          report.samples_per_s,
          report.tokens_per_s,
          report.memory.peak_bytes,
          report.memory.headroom_bytes(),
          report.memory.verdict};
}

}  // namespace

Suggestions suggest(const Scenario& scenario, const SuggestionSettings& settings) {
  Suggestions suggestions;
  const std::vector<Change> changes = single_changes(scenario);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (settings.on_progress) settings.on_progress(i, changes.size(), changes[i]);
    const std::optional<Report> report = settings.simulate(changes[i]);
    if (!report) {
      ++suggestions.impossible;
      continue;
    }
    suggestions.executor = report->executor;
    const bool fits = report->memory.verdict != Verdict::out_of_memory;
    (fits ? suggestions.fitting : suggestions.too_large).push_back(tried(changes[i], *report));
  }
  std::stable_sort(suggestions.fitting.begin(), suggestions.fitting.end(),
                   [](const TriedChange& a, const TriedChange& b) { return a.step_time_s < b.step_time_s; });
  std::stable_sort(suggestions.too_large.begin(), suggestions.too_large.end(),
                   [](const TriedChange& a, const TriedChange& b) { return a.headroom_bytes > b.headroom_bytes; });
  return suggestions;
}

}  // namespace meshweave
