// A report as text for people: one page for one run, one line per run for many.
#pragma once

#include <string>
#include <vector>

#include "sim/base/text.h"
#include "sim/report/report.h"

namespace meshweave {

std::string report_page(const RunView& run, const Report& report);

// "language: TP8 PP2 DP48, sequence parallel, ZeRO-1, recompute none"
// "TP8 PP2 DP48 VPP14"
std::string degrees_text(const ModuleLayout& layout);
std::string layout_text(const Scenario& scenario);
// Three lines: the GPUs and the executor, the layout, the batch.
std::string scenario_text(const Scenario& scenario, int ranks, std::string_view executor);
// A metric's column title and its value with the unit: "peak memory", "71.20 GB".
std::string metric_title(std::string_view key);
std::string metric_text(std::string_view key, double value);
// "419.7 (+15.9 %)": the published value of a metric, and how far ours is from it; empty when none is, or when
// an override makes the scenario another.
std::string published_text(const Scenario& scenario, const Report& report, std::string_view key);

// A table of right-aligned columns, the first `left_columns` left-aligned; ends with a newline. Cells are escaped.
std::string aligned_table(const std::vector<std::vector<std::string>>& cells, std::size_t left_columns);

// "5.13 s", "12.4 ms": four significant digits.
std::string seconds_text(double seconds);
std::string percent_text(double fraction);     // "12.3 %"
std::string bytes_text(double bytes);          // "71.20 GB", "3.12 MB"
std::string tokens_text(double tokens_per_s);  // "665154", "12.34" below 100

}  // namespace meshweave
