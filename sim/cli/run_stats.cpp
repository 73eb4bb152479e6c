#include "sim/cli/run_stats.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "sim/report/report_table.h"

namespace meshweave {
namespace {

double replay_s(const RunOutcome& run) {
  for (const PhaseTime& phase : run.phases) {
    if (phase.phase == "replay") return phase.wall_s;
  }
  return 0;
}

// Executions per second of the replay: it plays the step twice.
double ops_per_s(const RunOutcome& run) {
  const double seconds = replay_s(run);
  return seconds > 0 ? static_cast<double>(run.replay.events) / seconds : 0;
}

}  // namespace

double peak_rss_bytes() {
  rusage own{};
  rusage children{};
  getrusage(RUSAGE_SELF, &own);
  getrusage(RUSAGE_CHILDREN, &children);
  return 1024.0 * static_cast<double>(std::max(own.ru_maxrss, children.ru_maxrss));
}

void write_timing(JsonText& out, const RunOutcome& run) {
  out.key("timing"), out.object();
  out.field("wall_s", run.wall_s());
  out.key("phases_s"), out.object();
  for (const PhaseTime& phase : run.phases) out.field(phase.phase, phase.wall_s);
  out.end();
  out.field("classes", run.classes.count());
  out.field("replayed_ops", static_cast<std::int64_t>(run.replay.events));
  out.field("replayed_ops_per_s", ops_per_s(run));
  out.field("peak_rss_bytes", peak_rss_bytes());
  out.end();
}

std::string stats_table(const RunOutcome& run) {
  std::vector<std::vector<std::string>> rows;
  for (const PhaseTime& phase : run.phases) rows.push_back({std::string(phase.phase), seconds_text(phase.wall_s)});
  rows.push_back({"total", seconds_text(run.wall_s())});
  rows.push_back({"rank classes", fmt::format("{}", run.classes.count())});
  rows.push_back({"replayed ops", fmt::format("{}", run.replay.events)});
  rows.push_back({"replayed ops/s", fmt::format("{:.0f}", ops_per_s(run))});
  rows.push_back({"peak RSS", fmt::format("{:.1f} MB", peak_rss_bytes() * 1e-6)});
  return aligned_table(rows, 1);
}

}  // namespace meshweave
