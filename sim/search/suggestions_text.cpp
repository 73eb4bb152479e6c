#include <fmt/format.h>

#include <iterator>

#include "sim/report/report_table.h"
#include "sim/search/suggestions.h"

namespace meshweave {

std::string suggestions_text(const Suggestions& suggestions) {
  const bool any_fits = !suggestions.fitting.empty();
  const std::vector<TriedChange>& listed = any_fits ? suggestions.fitting : suggestions.too_large;
  std::string out = fmt::format(
      "\n{} ({})\n", any_fits ? "single changes that make it fit" : "no single change makes it fit; the closest first",
      name_of(suggestions.executor));
  std::vector<std::vector<std::string>> rows{
      {"  change", "step time", "tokens/s", "peak memory", "headroom", "verdict"}};
  for (const TriedChange& tried : listed) {
    rows.push_back({"  " + option_text(tried.change), seconds_text(tried.step_time_s), tokens_text(tried.tokens_per_s),
                    bytes_text(static_cast<double>(tried.peak_bytes)),
                    bytes_text(static_cast<double>(tried.headroom_bytes)), std::string(name_of(tried.verdict))});
  }
  if (!listed.empty()) out += aligned_table(rows, 1);
  fmt::format_to(std::back_inserter(out), "  of {}: {} {}, {} too large, {} not possible\n",
                 count_text(static_cast<std::int64_t>(suggestions.count()), "single change"),
                 suggestions.fitting.size(), suggestions.fitting.size() == 1 ? "fits" : "fit",
                 suggestions.too_large.size(), suggestions.impossible);
  return out;
}

}  // namespace meshweave
