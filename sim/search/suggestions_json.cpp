#include "sim/search/suggestions.h"

namespace meshweave {
namespace {

void write_changes(JsonText& out, std::string_view key, const std::vector<TriedChange>& changes) {
  out.key(key), out.array();
  for (const TriedChange& tried : changes) {
    out.object();
    out.key("set"), out.array();
    for (const Override& setting : tried.change) out.string(setting.pointer + "=" + setting.value);
    out.end();
    out.field("step_time_s", tried.step_time_s);
    out.field("samples_per_s", tried.samples_per_s);
    out.field("tokens_per_s", tried.tokens_per_s);
    out.field("peak_memory_bytes", tried.peak_bytes);
    out.field("headroom_bytes", tried.headroom_bytes);
    out.field("verdict", name_of(tried.verdict));
    out.end();
  }
  out.end();
}

}  // namespace

void write_suggestions(JsonText& out, const Suggestions& suggestions) {
  write_changes(out, "suggestions", suggestions.fitting);
  write_changes(out, "insufficient_changes", suggestions.too_large);
  out.field("impossible_changes", suggestions.impossible);
}

}  // namespace meshweave
