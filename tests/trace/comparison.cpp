#include "sim/trace/comparison.h"

#include <catch2/catch.hpp>
#include <random>

#include "sim/base/error.h"
#include "tests/trace/small_trace.h"

using namespace meshweave;

namespace {

Picoseconds total(const std::vector<StepPart>& parts) {
  Picoseconds sum{0};
  for (const StepPart& part : parts) sum += part.time;
  return sum;
}

Picoseconds total(const std::vector<PartChange>& changes) {
  Picoseconds sum{0};
  for (const PartChange& change : changes) sum += change.change();
  return sum;
}

Picoseconds time_of(const PartMeans& mean, const PartKey& key) {
  for (const StepPart& part : mean.parts) {
    if (part.key == key) return part.time;
  }
  return Picoseconds{0};
}

std::string refusal(const Trace& trace) {
  try {
    step_parts(trace);
  } catch (const InputError& error) {
    return error.diagnostics().front().message;
  }
  return "accepted";
}

}  // namespace

TEST_CASE("The parts of a step are means over the ranks that the trace's ranks stand for") {
  // Rank 0 computes matmul 10, add 5, bubble 15, exposed 10; rank 1, which stands for 3, matmul 25, add 5, exposed 10.
  const StepParts step = step_parts(two_ranks());
  CHECK(step.step == ns(40));
  CHECK(step.mean.ranks == 4);
  CHECK(time_of(step.mean, {PartKind::compute, "matmul", ""}) == ns(85) / 4);
  CHECK(time_of(step.mean, {PartKind::compute, "add", ""}) == ns(5));
  CHECK(time_of(step.mean, {PartKind::exposed, "all_reduce", "tensor"}) == ns(10));
  CHECK(step.mean.of(PartKind::bubble) == ns(15) / 4);
  CHECK(step.mean.of(PartKind::compute) == ns(105) / 4);
  CHECK(total(step.mean.parts) == ns(40));
  CHECK(step.mean.peak_memory_bytes == 164);
  REQUIRE(step.stages.size() == 1);
  CHECK(step.stages[0].module == "language");
}

TEST_CASE("Means that are no whole picoseconds are rounded so that they still add up") {
  // Three ranks: parts of 40 ns over 3 have remainders; the step is the sum whatever they are.
  Trace trace = two_ranks();
  trace.ranks[1].stands_for = 2;
  trace.slices[0].end += Picoseconds{1};
  trace.slices[1].start = trace.slices[0].end;
  const StepParts step = step_parts(trace);
  CHECK(step.mean.ranks == 3);
  CHECK(total(step.mean.parts) == ns(40));
  // (10,001 + 2 · 25,000) / 3 = 20,000 1/3; the bubble (14,999 + 0) / 3 = 4,999 2/3 has the larger remainder.
  CHECK(time_of(step.mean, {PartKind::compute, "matmul", ""}) == Picoseconds{20'000});
  CHECK(step.mean.of(PartKind::bubble) == Picoseconds{5'000});
}

TEST_CASE("Recomputed ops, the optimizer's and communication on boundary streams are parts of their own") {
  Trace trace = two_ranks();
  trace.ops[0].phase = "recompute";
  trace.ops[2].phase = "optimizer";
  trace.streams[1].kind = "boundary";
  const PartMeans mean = step_parts(trace).mean;
  CHECK(time_of(mean, {PartKind::recompute, "matmul", ""}) == ns(85) / 4);
  CHECK(time_of(mean, {PartKind::optimizer, "", ""}) == ns(5));
  CHECK(time_of(mean, {PartKind::boundary, "", ""}) == ns(10));
  CHECK(mean.of(PartKind::compute) == ns(0));
  CHECK(mean.of(PartKind::exposed) == ns(0));
}

TEST_CASE("A step compared with itself changes nowhere") {
  const StepParts step = step_parts(two_ranks());
  const std::vector<PartChange> changes = compare_parts(step.mean.parts, step.mean.parts);
  CHECK(changes.size() == step.mean.parts.size());
  for (const PartChange& change : changes) CHECK(change.change() == ns(0));
}

TEST_CASE("A matmul that takes longer everywhere is the part that changes, and the step by as much") {
  Trace slow = two_ranks();
  slow.step_end += ns(8);
  for (TraceSlice& s : slow.slices) {
    if (s.op != 0) s.start += ns(8);
    s.transfer = s.op == 0 ? s.start : s.transfer + ns(8);
    s.end += ns(8);
  }
  const std::vector<PartChange> changes =
      compare_parts(step_parts(two_ranks()).mean.parts, step_parts(slow).mean.parts);
  CHECK(changes.front().key == PartKey{PartKind::compute, "matmul", ""});
  CHECK(changes.front().change() == ns(8));
  CHECK(total(changes) == ns(8));
  for (std::size_t i = 1; i < changes.size(); ++i) CHECK(changes[i].change() == ns(0));
}

TEST_CASE("Parts of one side only count from nothing, the largest change first") {
  const std::vector<StepPart> a{{{PartKind::bubble, "", ""}, ns(15)}, {{PartKind::compute, "matmul", ""}, ns(20)}};
  const std::vector<StepPart> b{{{PartKind::compute, "matmul", ""}, ns(22)},
                                {{PartKind::recompute, "matmul", ""}, ns(2)}};
  const std::vector<PartChange> changes = compare_parts(a, b);
  REQUIRE(changes.size() == 3);
  CHECK(changes[0].key.part == PartKind::bubble);
  CHECK(changes[0].change() == ns(-15));
  CHECK(changes[1].key.part == PartKind::compute);  // 2 as well as the next: by key
  CHECK(changes[2].key.part == PartKind::recompute);
  CHECK(total(changes) == ns(-11));
}

TEST_CASE("Stages are matched by index where both steps have as many, and stand alone where not") {
  Trace one = two_ranks();
  Trace two = two_ranks();
  two.ranks[0].label = "dp1 pp0", two.ranks[1].label = "dp1 pp1";
  const StepParts a = step_parts(two);
  REQUIRE(a.stages.size() == 2);
  CHECK(a.stages[1].stage == 1);
  CHECK(a.stages[1].mean.ranks == 3);
  CHECK(total(a.stages[0].mean.parts) == ns(40));
  const std::vector<StageChange> matched = match_stages(a, a);
  REQUIRE(matched.size() == 2);
  CHECK((matched[1].a != nullptr && matched[1].b != nullptr));
  const StepParts b = step_parts(one);
  const std::vector<StageChange> alone = match_stages(a, b);
  REQUIRE(alone.size() == 3);
  CHECK((alone[0].b == nullptr && alone[1].b == nullptr && alone[2].a == nullptr));
}

TEST_CASE("A trace that is no whole step of times is refused with the reason") {
  CHECK(refusal(two_ranks()) == "accepted");
  Trace trace = two_ranks();
  trace.provenance.left_out = "2 of 4 ranks, 3 of 6 slices outside the window";
  CHECK(refusal(trace).find("3 of 6 slices outside the window") != std::string::npos);
  trace = two_ranks();
  trace.provenance.emulation = TraceEmulation{"full", "double", 2};
  CHECK(refusal(trace).find("no times to compare") != std::string::npos);
  trace = two_ranks();
  trace.ranks.clear(), trace.slices.clear(), trace.memory.clear();
  CHECK(refusal(trace) == "the trace holds no ranks");
  trace = two_ranks();
  trace.slices[1].cause = 2;
  CHECK(refusal(trace) == "the cause of slice 1 comes behind it");
  trace = two_ranks();
  std::swap(trace.slices[0].rank, trace.slices[3].rank);
  CHECK(refusal(trace).find("not in the order of ranks") != std::string::npos);
}

TEST_CASE("The parts of random steps add up to the picosecond, with any number of ranks") {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 500; ++round) {
    Trace trace = two_ranks();
    trace.ranks[0].stands_for = 1 + pick(1000), trace.ranks[1].stands_for = 1 + pick(1000);
    for (TraceSlice& s : trace.slices) {
      s.start += Picoseconds{pick(900)};
      s.transfer = s.start + Picoseconds{pick(900)};
      s.end = s.transfer + Picoseconds{pick(9000)};
    }
    const StepParts step = step_parts(trace);
    CHECK(total(step.mean.parts) == step.step);
  }
}
