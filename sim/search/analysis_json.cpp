#include <algorithm>
#include <string>

#include "sim/report/report_table.h"
#include "sim/search/analysis.h"

namespace meshweave {
namespace {

void write_memory(JsonText& out, const MemoryReport& memory) {
  out.key("memory"), out.object();
  for (int c = 0; c < category_count; ++c) {
    const std::string name(name_of(static_cast<Category>(c)));
    out.field(name + "_bytes", memory.by_category[static_cast<std::size_t>(c)]);
  }
  out.field("framework_bytes", memory.framework_bytes);
  out.field("total_bytes", memory.peak_bytes);
  out.field("device_bytes", memory.device_bytes);
  out.field("verdict", name_of(memory.verdict));
  out.end();
}

void write_traffic(JsonText& out, const Traffic& traffic) {
  out.key("received_bytes"), out.object();
  out.key("by_kind"), out.object();
  for (const OpKind kind : all_transfer_kinds) out.field(name_of(kind), traffic.of(kind));
  out.end();
  out.key("by_purpose"), out.object();
  for (const Purpose purpose : all_purposes) out.field(name_of(purpose), traffic.of(purpose));
  out.end();
  out.field("total", traffic.total());
  out.end();
}

void write_layer(JsonText& out, std::string_view key, const LayerWork& work) {
  out.key(key), out.object();
  out.field("forward_received_bytes", work.forward_bytes);
  out.field("backward_received_bytes", work.backward_bytes);
  out.field("forward_flops", work.forward_flops);
  out.field("backward_flops", work.backward_flops);
  out.end();
}

void write_figures(JsonText& out, const StrategyFigures& f) {
  out.field("ranks", f.ranks);
  out.field("dp", f.dp);
  out.field("global_batch", f.global_batch);
  out.field("micro_batch", f.micro_batch);
  out.field("micro_batches", f.micro_batches);
  out.field("sequence", f.sequence);
  out.field("step_time_s", f.step_time_s);
  out.field("step_time_per_token_s", f.step_time_s / f.tokens());
  out.field("tokens_per_s", f.tokens() / f.step_time_s);
  write_memory(out, f.memory);
  out.field("states_closed_form_bytes", f.states_form);
  write_traffic(out, f.traffic);
  out.field("flops", f.flops);
  out.field("host_s", f.host_s);
  out.key("exposed_comm_s"), out.object();
  for (const Purpose purpose : all_purposes)
    out.field(name_of(purpose), f.exposed_s[static_cast<std::size_t>(purpose)]);
  out.field("total", f.exposed_total_s());
  out.end();
  write_layer(out, "layer", f.layer);
  write_layer(out, "layer_closed_form", f.layer_form);
}

}  // namespace

void write_analysis(JsonText& out, const std::vector<StrategyRow>& rows) {
  out.key("strategies"), out.array();
  for (const StrategyRow& row : rows) {
    const Strategy& strategy = row.strategy;
    out.object();
    out.field("strategy", name_of(strategy.kind));
    out.field("name", strategy.name);
    out.field("layout", strategy.layout);
    out.field("tensor", strategy.tensor);
    out.field("sequence_shards", strategy.sequence);
    out.key("set"), out.array();
    for (const Override& each : strategy.change) out.string(each.pointer + "=" + each.value);
    out.end();
    out.key("notes"), out.array();
    for (const std::string& note : strategy.notes) out.string(note);
    out.end();
    if (row.figures)
      write_figures(out, *row.figures);
    else
      out.field("impossible", reason_of(row));
    out.end();
  }
  out.end();
}

}  // namespace meshweave
