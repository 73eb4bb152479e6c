#include "sim/report/report_json.h"

#include <map>
#include <string>

namespace meshweave {
namespace {

// The kinds of communication that the program uses, by name.
template <class Values>
void write_by_stream(JsonText& out, std::string_view key, const RunView& run, const Values& values) {
  std::array<bool, stream_kind_count> used{};
  for (const Stream& stream : run.program.streams) used[static_cast<std::size_t>(stream.kind)] = true;
  out.key(key), out.object();
  for (const StreamKind kind : all_stream_kinds) {
    const std::size_t k = static_cast<std::size_t>(kind);
    if ((used[k] && lane_kind(kind) == LaneKind::communication) || values[k] != 0) out.field(name_of(kind), values[k]);
  }
  out.end();
}

void write_shares(JsonText& out, const RunView& run, const TimeShares& shares) {
  out.field("compute_s", shares.compute_s);
  out.field("bubble_s", shares.bubble_s);
  out.field("exposed_comm_s", shares.exposed_total_s());
  out.field("host_s", shares.host_s);
  out.field("copy_s", shares.copy_s);
  write_by_stream(out, "exposed_comm_s_by_kind", run, shares.exposed_s);
}

void write_compute(JsonText& out, const RunView& run, const Report& report) {
  std::map<OpKind, double> by_kind;
  std::map<Phase, double> by_phase;
  for (const SpecUse& use : report.uses) {
    const OpSpec& spec = run.program.op_specs[use.spec];
    if (is_communication(spec.kind)) continue;
    by_kind[spec.kind] += use.compute_s;
    by_phase[spec.phase] += use.compute_s;
  }
  out.key("compute_s_by_kind"), out.object();
  for (const auto& [kind, seconds] : by_kind) out.field(name_of(kind), seconds);
  out.end();
  out.key("compute_s_by_phase"), out.object();
  for (const auto& [phase, seconds] : by_phase) out.field(name_of(phase), seconds);
  out.end();
}

void write_stages(JsonText& out, const RunView& run, const Report& report) {
  out.key("stages"), out.array();
  for (const StageReport& stage : report.stages) {
    if (stage.ranks == 0) continue;
    out.object();
    out.field("module", run.scenario.model[stage.module].name);
    out.field("stage", stage.stage);
    out.field("ranks", stage.ranks);
    write_shares(out, run, stage.mean);
    out.field("ops", stage.ops);
    out.field("peak_memory_bytes", stage.peak_memory_bytes);
    out.end();
  }
  out.end();
}

void write_memory(JsonText& out, const Report& report) {
  const MemoryReport& memory = report.memory;
  out.field("fits", memory.verdict != Verdict::out_of_memory);
  out.field("verdict", name_of(memory.verdict));
  out.field("peak_memory_bytes", memory.peak_bytes);
  out.field("peak_memory_rank", memory.rank);
  out.key("memory_by_category"), out.object();
  for (int c = 0; c < category_count; ++c) {
    out.field(name_of(static_cast<Category>(c)), memory.by_category[static_cast<std::size_t>(c)]);
  }
  out.field("framework", memory.framework_bytes);
  out.end();
  out.field("device_memory_bytes", memory.device_bytes);
  out.field("headroom_bytes", memory.headroom_bytes());
  out.field("memory_error", memory.error);
}

void write_path(JsonText& out, const RunView& run, const Report& report) {
  const PathReport& path = report.path;
  out.key("critical_path"), out.object();
  out.field("compute_s", path.compute_s);
  write_by_stream(out, "transfer_s_by_kind", run, path.transfer_s);
  out.field("copy_s", path.copy_s);
  out.field("host_s", path.host_s);
  out.field("start_s", path.start_s);
  out.key("by_stage_s"), out.array();
  for (const double seconds : path.by_stage) out.number(seconds);
  out.end();
  out.key("by_perturbation_s"), out.array();
  for (const double seconds : path.by_perturbation) out.number(seconds);
  out.end();
  out.end();
}

void write_published(JsonText& out, const RunView& run, const Report& report) {
  out.key("published");
  if (!run.scenario.published) return out.null();
  const Published& published = *run.scenario.published;
  out.object();
  for (const auto& [key, value] : published.values) out.field(key, value);
  out.field("source", published.source);
  if (!published.differs_at.empty()) {
    out.field("differs_at", published.differs_at);
    out.end();
    return;
  }
  out.key("relative_error"), out.object();
  for (const auto& [key, value] : published.values) {
    const std::optional<double> ours = metric(report, key);
    if (ours && value != 0) out.field(key, *ours / value - 1);
  }
  out.end();
  out.end();
}

void write_links(JsonText& out, const Report& report) {
  if (report.links.empty()) return;
  out.key("links"), out.array();
  for (const LinkUse& link : report.links) {
    out.object();
    out.field("link", link.link);
    out.field("bytes", link.bytes);
    out.field("utilisation", link.bytes / (link.bytes_per_s * report.step_time_s));
    out.end();
  }
  out.end();
}

void write_provenance(JsonText& out, const RunView& run) {
  out.key("provenance"), out.object();
  out.field("seed", static_cast<std::int64_t>(run.scenario.seed));
  out.key("inputs"), out.object();
  for (const auto& [file, hash] : run.scenario.inputs) out.field(file, hash);
  out.end();
  out.end();
}

}  // namespace

void write_report(JsonText& out, const RunView& run, const Report& report) {
  out.field("schema_version", report_schema_version);
  out.field("scenario", run.scenario.file);
  out.field("name", run.scenario.name);
  out.field("executor", name_of(report.executor));
  out.field("ranks", report.ranks);
  out.field("step_time_s", report.step_time_s);
  out.field("latency_s", report.latency_s);
  out.field("samples_per_s", report.samples_per_s);
  out.field("tokens_per_s", report.tokens_per_s);
  out.field("tflops_per_gpu", report.tflops_per_gpu);
  out.field("mfu", report.mfu);
  out.field("hfu", report.hfu);
  out.field("model_flops", report.model_flops);
  out.field("executed_flops", report.executed_flops);
  out.field("bubble_fraction", report.bubble_fraction());
  out.field("bubble_over_ideal", report.bubble_over_ideal());
  out.key("bubble_over_ideal_closed_form");
  report.bubble_over_ideal_closed_form ? out.number(*report.bubble_over_ideal_closed_form) : out.null();
  out.field("exposed_comm_fraction", report.exposed_comm_fraction());
  write_shares(out, run, report.mean);
  write_compute(out, run, report);
  write_memory(out, report);
  out.field("ops", report.ops);
  write_stages(out, run, report);
  write_path(out, run, report);
  write_links(out, report);
  write_published(out, run, report);
  write_provenance(out, run);
}

}  // namespace meshweave
