#include "sim/report/build_trace.h"

#include <catch2/catch.hpp>

#include "sim/trace/critical_path.h"
#include "sim/trace/trace_reader.h"
#include "sim/trace/trace_writer.h"
#include "tests/report/finished_run.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

constexpr const char* layout = R"({ "tp": 2, "pp": 4, "dp": 2, "zero": 1, "recompute": "full" })";

std::string text_of(const Trace& trace) {
  std::string text;
  write_trace(trace, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace

TEST_CASE("A trace holds one rank per class, or those that are asked for") {
  const FinishedRun run(small_h100_scenario(layout), true);
  CHECK(build_trace(run.view(), {}, "t").ranks.size() == static_cast<std::size_t>(run.classes.count()));
  TraceRequest request;
  request.all_ranks = true;
  const Trace all = build_trace(run.view(), request, "t");
  CHECK(all.ranks.size() == 16);
  CHECK(all.provenance.left_out.empty());
  request = {};
  request.ranks = {5, 2, 5};
  const Trace two = build_trace(run.view(), request, "t");
  REQUIRE(two.ranks.size() == 2);
  CHECK(two.ranks[0].rank == 2);
  CHECK(two.ranks[1].rank == 5);
  CHECK(two.ranks[1].label == run.program.grids[0].label(5));
  CHECK(two.provenance.left_out == "14 of 16 ranks");
}

TEST_CASE("The trace of a folded run equals that of a whole one") {
  const FinishedRun folded(small_h100_scenario(layout), true);
  const FinishedRun whole(small_h100_scenario(layout), false);
  TraceRequest request;
  request.all_ranks = true;
  const Trace a = build_trace(folded.view(), request, "t");
  const Trace b = build_trace(whole.view(), request, "t");
  REQUIRE(a.slices.size() == b.slices.size());
  CHECK(a.slices == b.slices);
  CHECK(a.memory == b.memory);
  CHECK(a.memory_bytes == b.memory_bytes);
}

TEST_CASE("The trace gives the same breakdown and critical path as the report") {
  const FinishedRun run(small_h100_scenario(layout));
  const Trace trace = build_trace(run.view(), {}, "t");
  const std::vector<Breakdown> by_rank = break_down(trace);
  REQUIRE(by_rank.size() == run.report.by_class.size());
  for (std::size_t i = 0; i < by_rank.size(); ++i) {
    CHECK(by_rank[i].compute == run.report.by_class[i].compute);
    CHECK(by_rank[i].bubble == run.report.by_class[i].bubble);
    CHECK(by_rank[i].exposed == run.report.by_class[i].exposed);
    CHECK(by_rank[i].total() == trace.step_end - trace.step_begin);
  }
  Picoseconds length{0};
  for (const PathPiece& piece : critical_path(trace)) length += piece.to - piece.from;
  CHECK(length == trace.step_end - trace.step_begin);
}

TEST_CASE("Slices of one stream never overlap, also after rounding to nanoseconds, flows join slices that meet") {
  const FinishedRun run(small_h100_scenario(layout));
  const Trace trace = build_trace(run.view(), {}, "t");
  std::vector<std::vector<std::int64_t>> until(trace.ranks.size(), std::vector<std::int64_t>(trace.streams.size()));
  for (const TraceSlice& s : trace.slices) {
    CHECK(s.start.count() >= 0);
    CHECK(floor_nanoseconds(s.start) >= until[s.rank][s.stream]);
    until[s.rank][s.stream] = floor_nanoseconds(s.end);
  }
  CHECK_FALSE(trace.flows.empty());
  for (const TraceFlow& flow : trace.flows) {
    const TraceSlice& a = trace.slices[flow.from];
    const TraceSlice& b = trace.slices[flow.to];
    CHECK(std::max(a.start, b.start) <= std::min(a.end, b.end));
    CHECK(a.rank != b.rank);
  }
}

TEST_CASE("The largest memory sample of a trace is the peak of the report") {
  const FinishedRun run(small_h100_scenario(layout));
  const Trace trace = build_trace(run.view(), {}, "t");
  const std::size_t categories = trace.memory_categories.size();
  REQUIRE(categories == category_count + 1);
  CHECK(trace.memory_categories.back() == "framework");
  std::int64_t peak = 0;
  for (std::size_t i = 0; i < trace.memory.size(); ++i) {
    std::int64_t sum = 0;
    for (std::size_t c = 0; c < categories; ++c) sum += trace.memory_bytes[i * categories + c];
    CHECK(trace.memory_bytes[(i + 1) * categories - 1] == run.report.memory.framework_bytes);
    peak = std::max(peak, sum);
    if (i > 0 && trace.memory[i].rank == trace.memory[i - 1].rank)
      CHECK(trace.memory[i].time >= trace.memory[i - 1].time);
  }
  CHECK(peak == run.report.memory.peak_bytes);
}

TEST_CASE("A window keeps the slices that overlap it and says what it left out") {
  const FinishedRun run(small_h100_scenario(layout));
  const Trace whole = build_trace(run.view(), {}, "t");
  TraceRequest request;
  request.window = {run.replayed.step / 4, run.replayed.step / 2};
  const Trace part = build_trace(run.view(), request, "t");
  CHECK(part.slices.size() < whole.slices.size());
  CHECK(part.provenance.left_out.find("slices outside the window") != std::string::npos);
  std::size_t inside = 0;
  for (const TraceSlice& s : whole.slices) {
    inside += s.end >= request.window->first && s.start <= request.window->second;
  }
  CHECK(part.slices.size() == inside);
  for (const TraceSlice& s : part.slices) {
    if (s.cause != no_slice) CHECK(part.slices.at(s.cause).rank == s.rank);
  }
  // Reading rounds to nanoseconds and drops the white space of the resolved scenario, nothing else.
  const std::string once = text_of(parse_trace(text_of(part), "t.json"));
  const bool same = text_of(parse_trace(once, "t.json")) == once;
  CHECK(same);
  CHECK(parse_trace(once, "t.json").slices.size() == part.slices.size());
}
