// Two runs side by side: what the difference of their step times consists of (sim/trace/comparison.h), their headline
// figures, and the settings that differ.
//
// Everything follows from the two traces, the scenario of each among them, so that a run and the trace that it wrote
// compare alike, but for the nanoseconds to which a trace file rounds.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json_text.h"
#include "sim/report/run_view.h"
#include "sim/trace/comparison.h"

namespace meshweave {

struct ComparedRun {
  std::string file;  // as the user named it
  bool from_trace = false;
  std::string name;
  std::string executor;
  std::string resolved;              // JSON of the resolved scenario; may be empty
  std::optional<Scenario> scenario;  // none where a trace's scenario is not one that this version reads
  StepParts parts;
};

// Throws InputError as step_parts() does.
ComparedRun compared_run(const RunView& run, const std::string& file);
ComparedRun compared_run(const Trace& trace, const std::string& file);

// A figure of both runs: step_time_s, tokens_per_s, tflops_per_gpu, mfu, peak_memory_bytes, gpus, global_batch,
// micro_batches, exposed_comm_fraction, bubble_fraction, as in the report. None: the scenario is missing.
struct HeadlinePair {
  std::string_view key;
  std::optional<double> a, b;
};

// A value of the resolved scenarios that differs, as JSON on one line; empty: that side has none.
struct SettingPair {
  std::string pointer;
  std::string a, b;
};

struct Comparison {
  ComparedRun a, b;
  std::vector<HeadlinePair> headlines;
  std::optional<std::vector<SettingPair>> settings;
  std::vector<PartChange> groups;  // one per kind of part (no op, no stream), the largest change first
  std::vector<PartChange> parts;   // the largest change first; add up to the change of the step

  Picoseconds change() const { return b.parts.step - a.parts.step; }
};

Comparison compare_runs(ComparedRun a, ComparedRun b);

// The values that differ between two resolved scenarios. Where two objects have another "name", such as two devices of
// the catalog, the name stands for the rest of them. The scenario's own name, and what was published, are left out.
// None where one of them is no JSON, as that of a trace without it.
std::optional<std::vector<SettingPair>> differing_settings(std::string_view a, std::string_view b);

std::string comparison_page(const Comparison& comparison);
// The keys of an object that the caller has opened:
//   a, b        file, kind ("scenario" or "trace"), name, executor, the headlines, step_time_ps, verdict, ranks: as
//   many
//               as the means are over
//   change      b − a of every headline that both have, and step_time_ps; ratio: b / a
//   settings    pointer, a, b (null: absent); null where a trace does not tell its scenario
//   groups      part, a_s, b_s, change_s, change_ps of each kind of part
//   parts       the same in detail, with op and stream; change_ps add up to change.step_time_ps
//   stages      module, stage, a, b: ranks, peak_memory_bytes, parts; null for a stage that the other run does not have
void write_comparison(JsonText& out, const Comparison& comparison);

}  // namespace meshweave
