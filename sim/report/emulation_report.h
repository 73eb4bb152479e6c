// What an emulation shows: the loss of every step beside the reference's, the errors of all parameters, and
// the verdict.
#pragma once

#include <string>

#include "sim/base/json_text.h"
#include "sim/emulate/diagnose.h"

namespace meshweave {

struct EmulationView {
  const Scenario& scenario;  // as emulated
  bool tiny = false;         // made small
  int ranks = 0;
  EmulationPrecision precision = EmulationPrecision::double_precision;
  const EmulationReport& report;
  const EmulationJudgement& judgement;
};

std::string_view model_scale_name(bool tiny);  // "full", "tiny"

std::string emulation_page(const EmulationView& view);
// The keys of an object that the caller has opened: schema_version, scenario, …, matches. What is not made or not
// judged is null, and so are errors that are infinite.
void write_emulation(JsonText& out, const EmulationView& view);

}  // namespace meshweave
