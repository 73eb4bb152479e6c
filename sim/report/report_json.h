// A report as JSON, with stable keys and units in the names. `timing` is left to the caller: it differs between
// runs, everything here is a function of the inputs.
#pragma once

#include "sim/base/json_text.h"
#include "sim/report/report.h"
#include "sim/report/suggestions.h"

namespace meshweave {

constexpr int report_schema_version = 1;

// Writes the fields of the report into the object that is open in `out`.
void write_report(JsonText& out, const RunView& run, const Report& report);

// Where the step does not fit, beside it:
//   suggestions           the single changes that fit, the shortest step first: `set`, the values of the --set options
//                         that make the change, then step_time_s, samples_per_s, tokens_per_s, peak_memory_bytes,
//                         headroom_bytes and verdict of the step with it, from the analytic executor
//   insufficient_changes  those that do not fit either, in the same form, the one that comes closest first
//   impossible_changes    how many more make no scenario
// All three are absent where it fits.
void write_suggestions(JsonText& out, const Suggestions& suggestions);

}  // namespace meshweave
