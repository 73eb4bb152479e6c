// How long a run took and how much memory it needed: wall-clock figures, kept apart from results.
#pragma once

#include <string>

#include "sim/base/json_text.h"
#include "sim/search/pipeline.h"

namespace meshweave {

// Largest resident set of this process or of a finished child so far, in bytes.
double peak_rss_bytes();

// The key "timing" with the phases, events and memory of a run.
void write_timing(JsonText& out, const RunOutcome& run);

// The same as a table for people.
std::string stats_table(const RunOutcome& run);

}  // namespace meshweave
