// A report as text for people: one page for one run, one line per run for many.
#pragma once

#include <string>
#include <vector>

#include "sim/report/report.h"

namespace meshweave {

std::string report_page(const RunView& run, const Report& report);

// "language: TP8 PP2 DP48, sequence parallel, ZeRO-1, recompute none"
std::string layout_text(const Scenario& scenario);

// A table of right-aligned columns, the first `left_columns` left-aligned; ends with a newline.
std::string aligned_table(const std::vector<std::vector<std::string>>& rows, std::size_t left_columns);

// "5.13 s", "12.4 ms": four significant digits.
std::string seconds_text(double seconds);
std::string percent_text(double fraction);  // "12.3 %"
std::string gigabytes_text(double bytes);   // "71.20 GB"
std::string tokens_text(double tokens_per_s);  // "665154", "12.34" below 100

}  // namespace meshweave
