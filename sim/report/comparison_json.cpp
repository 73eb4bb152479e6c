#include "sim/report/comparison.h"
#include "sim/report/report.h"

namespace meshweave {
namespace {

void write_number(JsonText& out, std::string_view key, std::optional<double> value) {
  out.key(key);
  value ? out.number(*value) : out.null();
}

// JSON text, or null for what is absent.
void write_value(JsonText& out, std::string_view key, std::string_view json) {
  out.key(key);
  json.empty() ? out.null() : out.raw(json);
}

void write_run(JsonText& out, const Comparison& comparison, bool is_a) {
  const ComparedRun& run = is_a ? comparison.a : comparison.b;
  out.key(is_a ? "a" : "b"), out.object();
  out.field("file", run.file);
  out.field("kind", run.from_trace ? "trace" : "scenario");
  out.field("name", run.name);
  out.field("executor", run.executor);
  for (const HeadlinePair& pair : comparison.headlines) write_number(out, pair.key, is_a ? pair.a : pair.b);
  out.field("step_time_ps", run.parts.step.count());
  out.key("verdict");
  run.scenario ? out.string(name_of(verdict_of(run.parts.mean.peak_memory_bytes, run.scenario->cluster.node.device)))
               : out.null();
  out.field("ranks", run.parts.mean.ranks);
  out.end();
}

void write_changes(JsonText& out, const Comparison& comparison) {
  out.key("change"), out.object();
  for (const auto& [key, a, b] : comparison.headlines) {
    if (a && b) out.field(key, *b - *a);
  }
  out.field("step_time_ps", comparison.change().count());
  out.end();
  out.key("ratio"), out.object();
  for (const auto& [key, a, b] : comparison.headlines) {
    if (a && b && *a != 0) out.field(key, *b / *a);
  }
  out.end();
}

void write_key(JsonText& out, const PartKey& key) {
  out.field("part", name_of(key.part));
  if (!key.op.empty()) out.field("op", key.op);
  if (!key.stream.empty()) out.field("stream", key.stream);
}

void write_parts(JsonText& out, std::string_view key, const std::vector<PartChange>& parts) {
  out.key(key), out.array();
  for (const PartChange& part : parts) {
    out.object();
    write_key(out, part.key);
    out.field("a_s", seconds_from_picoseconds(part.a));
    out.field("b_s", seconds_from_picoseconds(part.b));
    out.field("change_s", seconds_from_picoseconds(part.change()));
    out.field("change_ps", part.change().count());
    out.end();
  }
  out.end();
}

void write_means(JsonText& out, std::string_view key, const PartMeans* means) {
  out.key(key);
  if (means == nullptr) return out.null();
  out.object();
  out.field("ranks", means->ranks);
  out.field("peak_memory_bytes", means->peak_memory_bytes);
  out.key("parts"), out.array();
  for (const StepPart& part : means->parts) {
    out.object();
    write_key(out, part.key);
    out.field("time_s", seconds_from_picoseconds(part.time));
    out.field("time_ps", part.time.count());
    out.end();
  }
  out.end();
  out.end();
}

}  // namespace

void write_comparison(JsonText& out, const Comparison& comparison) {
  write_run(out, comparison, true);
  write_run(out, comparison, false);
  write_changes(out, comparison);
  out.key("settings");
  if (comparison.settings) {
    out.array();
    for (const SettingPair& pair : *comparison.settings) {
      out.object();
      out.field("pointer", pair.pointer);
      write_value(out, "a", pair.a);
      write_value(out, "b", pair.b);
      out.end();
    }
    out.end();
  } else {
    out.null();
  }
  write_parts(out, "groups", comparison.groups);
  write_parts(out, "parts", comparison.parts);
  out.key("stages"), out.array();
  for (const StageChange& stage : match_stages(comparison.a.parts, comparison.b.parts)) {
    out.object();
    out.field("module", stage.module);
    out.field("stage", stage.stage);
    write_means(out, "a", stage.a);
    write_means(out, "b", stage.b);
    out.end();
  }
  out.end();
}

}  // namespace meshweave
