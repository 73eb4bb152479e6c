#include "sim/trace/breakdown.h"

#include <catch2/catch.hpp>
#include <random>

#include "tests/trace/small_trace.h"

using namespace meshweave;

TEST_CASE("An idle rank that waits for a late peer is in a bubble, then exposed to the transfer") {
  const std::vector<Breakdown> by_rank = break_down(two_ranks());
  REQUIRE(by_rank.size() == 2);
  // Rank 0: computes 10 + 5; from 10 to 25 rank 1 has not come, from 25 to 35 the transfer runs.
  CHECK(by_rank[0].compute == ns(15));
  CHECK(by_rank[0].bubble == ns(15));
  CHECK(by_rank[0].exposed == std::vector<Picoseconds>{ns(0), ns(10)});
  // Rank 1: computes 25 + 5 and waits for nobody.
  CHECK(by_rank[1].compute == ns(30));
  CHECK(by_rank[1].bubble == ns(0));
  CHECK(by_rank[1].exposed == std::vector<Picoseconds>{ns(0), ns(10)});
  for (const Breakdown& b : by_rank) CHECK(b.total() == ns(40));
}

namespace {

// A rank of compute stream 0, communication stream 1 and copy stream 2.
Breakdown of(const std::vector<LaneOp>& ops, double begin, double step) {
  return break_down(
      ops.size(), 3, ns(begin), ns(step), [&](std::size_t i) { return ops[i]; }, [](std::size_t, Picoseconds) {});
}

LaneOp lane(std::uint8_t stream, double start, double transfer, double end, std::int64_t cause, Release release) {
  LaneOp op;
  op.stream = stream;
  op.kind = stream == 0 ? LaneKind::compute : stream == 1 ? LaneKind::communication : LaneKind::copy;
  op.on_compute_stream = stream == 0;
  op.start = ns(start), op.transfer = ns(transfer), op.end = ns(end);
  op.cause = cause;
  op.release = release;
  return op;
}

}  // namespace

TEST_CASE("Idle time until the host issues the op is host-bound") {
  const Breakdown b = of({lane(0, 0, 0, 4, -1, Release::none), lane(0, 7, 7, 10, -1, Release::host)}, 0, 10);
  CHECK(b.compute == ns(7));
  CHECK(b.host == ns(3));
  CHECK(b.total() == ns(10));
}

TEST_CASE("A host that was held by a communication passes the question on to it") {
  // The norm's all-reduce (launched at 4, all there at 5, ended at 8) held the host, which issued the next at 9.
  const Breakdown b =
      of({lane(0, 0, 0, 4, -1, Release::none), lane(1, 4, 5, 8, 0, Release::wait), lane(0, 9, 9, 10, 1, Release::host)},
         0, 10);
  CHECK(b.compute == ns(5));
  CHECK(b.bubble == ns(1));
  CHECK(b.exposed[1] == ns(3));
  CHECK(b.host == ns(1));
  CHECK(b.total() == ns(10));
}

TEST_CASE("Communications in a row are classified one by one, copies count as copies") {
  // Two transfers on one stream, the second released by the first, then a copy, then the op.
  const Breakdown b =
      of({lane(0, 0, 0, 2, -1, Release::none), lane(1, 2, 3, 5, 0, Release::wait), lane(1, 5, 5, 6, 1, Release::stream),
          lane(2, 6, 6, 9, 2, Release::wait), lane(0, 9, 9, 10, 3, Release::wait)},
         0, 10);
  CHECK(b.compute == ns(3));
  CHECK(b.bubble == ns(1));
  CHECK(b.exposed[1] == ns(3));
  CHECK(b.copy == ns(3));
  CHECK(b.total() == ns(10));
}

TEST_CASE("A transfer that began behind compute is exposed only where the stream is idle") {
  const Breakdown b = of({lane(0, 0, 0, 2, -1, Release::none), lane(1, 2, 2, 9, 0, Release::wait),
                          lane(0, 2, 2, 6, 0, Release::stream), lane(0, 9, 9, 10, 1, Release::wait)},
                         0, 10);
  CHECK(b.compute == ns(7));
  CHECK(b.exposed[1] == ns(3));
  CHECK(b.total() == ns(10));
}

TEST_CASE("A gather at the end of the step that the next step waits for is exposed") {
  // Compute 0 to 6, parameters gathered from 6 to 10 (the step's end); the next step's first op waits for them.
  LaneOp first = lane(0, 0, 0, 6, 1, Release::wait);
  first.cause_previous_step = true;
  const Breakdown b = of({first, lane(1, 6, 7, 10, 0, Release::wait)}, 0, 10);
  CHECK(b.compute == ns(6));
  CHECK(b.exposed[1] == ns(3));
  CHECK(b.bubble == ns(1));
  CHECK(b.total() == ns(10));
}

TEST_CASE("Idle time at the end of a step that nothing explains is a bubble") {
  const Breakdown b = of({lane(0, 100, 100, 106, -1, Release::none)}, 100, 10);
  CHECK(b.compute == ns(6));
  CHECK(b.bubble == ns(4));
}

TEST_CASE("A rank that starts before the recorded step is seen for the same length from its first op") {
  // It starts at 95 and is done at 103 of the step 100 to 110: 8 of compute, 2 of idle time.
  const Breakdown b = of({lane(0, 95, 95, 103, -1, Release::none)}, 100, 10);
  CHECK(b.compute == ns(8));
  CHECK(b.bubble == ns(2));
}

TEST_CASE("A rank whose ops span more than a step is cut at the front") {
  const Breakdown b = of({lane(0, 95, 95, 99, -1, Release::none), lane(0, 99, 99, 108, -1, Release::host)}, 100, 10);
  CHECK(b.compute == ns(10));
  CHECK(b.total() == ns(10));
}

TEST_CASE("A rank without compute is idle for the whole step") {
  const Breakdown b = of({lane(1, 0, 0, 10, -1, Release::none)}, 0, 10);
  CHECK(b.bubble == ns(10));
}

TEST_CASE("The parts add up to the step whatever the causes say") {
  // Random streams in order, random causes among earlier ops, random flags: only the sum must hold.
  std::mt19937 random(5);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<LaneOp> ops;
    double end[3] = {90, 90, 90};
    const int count = 1 + pick(30);
    for (int i = 0; i < count; ++i) {
      const auto stream = static_cast<std::uint8_t>(pick(3));
      const double start = end[stream] + pick(4);
      const double transfer = start + (stream == 1 ? pick(3) : 0);
      end[stream] = transfer + pick(4);
      ops.push_back(lane(stream, start, transfer, end[stream], pick(i + 1) - 1, static_cast<Release>(pick(4))));
      ops.back().cause_previous_step = ops.back().cause >= 0 && pick(5) == 0;
    }
    const double step = 1 + pick(60);
    CHECK(of(ops, 90 + pick(20), step).total() == ns(step));
  }
}
