// Many runs at once: the scenarios of a folder, the crossed points of --vary, or both. Worker threads take the runs
// in order; the outcome does not depend on how many there are.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/json_text.h"
#include "sim/search/pipeline.h"

namespace meshweave {

struct SweepPoint {
  std::string path;  // of the scenario
  std::vector<Override> overrides;
  std::vector<std::pair<std::string, std::string>> vary;  // pointer and value, of --vary
};

struct SweepRow {
  SweepPoint point;
  std::vector<Diagnostic> refused;  // why the scenario is no possible one; empty when it ran
  bool unreadable = false;          // refused because a file could not be read
  Report report;                    // without Report::by_class
  std::string json;                 // the report as a JSON object
  std::string layout;               // "TP8 PP2 DP48 VPP14"
  std::string micro_batch;
  std::string recompute;
  std::map<std::string, std::string> published;  // by metric: "419.7 (+15.9 %)"
  bool ran() const { return refused.empty(); }
};

// What is written into the JSON object of a run besides its report.
using WriteTiming = std::function<void(JsonText&, const RunOutcome&)>;

struct SweepSettings {
  RunSettings run;
  int jobs = 0;                                                                                 // 0: one per processor
  WriteTiming write_timing;                                                                     // may be empty
  std::function<void(std::size_t done, std::size_t all, const std::string& path)> on_progress;  // any thread
};

// In the order of `points`; those that were finished, when it is interrupted.
std::vector<SweepRow> sweep(const std::vector<SweepPoint>& points, const SweepSettings& settings);

// Those that do not fit last, refused ones behind them, else by step time; ties keep their order.
void sort_by_step_time(std::vector<SweepRow>& rows);

// Writes the varied values of a point, if there are any, as "vary" into the object that is open.
void write_vary(JsonText& out, const SweepPoint& point);

// The table of the rows that ran, and beneath it how many were refused and why.
std::string sweep_table(const std::vector<SweepRow>& rows);
std::string sweep_json(const std::vector<SweepRow>& rows);

}  // namespace meshweave
