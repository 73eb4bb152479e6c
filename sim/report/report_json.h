// A report as JSON, with stable keys and units in the names. `timing` is left to the caller: it differs between
// runs, everything here is a function of the inputs.
#pragma once

#include "sim/base/json_text.h"
#include "sim/report/report.h"

namespace meshweave {

constexpr int report_schema_version = 1;

// Writes the fields of the report into the object that is open in `out`.
void write_report(JsonText& out, const RunView& run, const Report& report);

}  // namespace meshweave
