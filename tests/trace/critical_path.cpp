#include "sim/trace/critical_path.h"

#include <catch2/catch.hpp>

#include "tests/trace/small_trace.h"

using namespace meshweave;

TEST_CASE("The critical path leads through the last member of a collective to the slow rank") {
  const Trace trace = two_ranks();
  const std::vector<PathPiece> path = critical_path(trace);
  // add (slice 2), all-reduce of rank 0 from 25 (slice 1), matmul of rank 1 (slice 3): 5 + 10 + 25 = 40.
  REQUIRE(path.size() == 3);
  CHECK(path[0].node == 3);
  CHECK(path[0].from == ns(0));
  CHECK(path[0].to == ns(25));
  CHECK(path[1].node == 1);
  CHECK(path[1].to - path[1].from == ns(10));
  CHECK(path[2].node == 2);
  CHECK(path[2].to == ns(40));
}

TEST_CASE("Time until the host issues an op is on the path as host time") {
  Trace trace = two_ranks();
  trace.slices[2].start = trace.slices[2].transfer = ns(37);
  trace.slices[2].end = trace.slices[5].end = ns(42);
  trace.slices[2].release = Release::host;
  trace.step_end = ns(42);
  const std::vector<PathPiece> path = critical_path(trace);
  REQUIRE(path.size() == 4);
  CHECK(path[2].kind == PathKind::host);
  CHECK(path[2].from == ns(35));
  CHECK(path[2].to == ns(37));
}

TEST_CASE("A path is cut off at the begin of the step and covers it without gap") {
  Trace trace = two_ranks();
  trace.step_begin = ns(20);
  const std::vector<PathPiece> path = critical_path(trace);
  REQUIRE_FALSE(path.empty());
  CHECK(path.front().from == ns(20));
  for (std::size_t i = 1; i < path.size(); ++i) CHECK(path[i].from == path[i - 1].to);
  CHECK(path.back().to == ns(40));
}

TEST_CASE("A damaged trace whose causes form a cycle still ends") {
  Trace trace = two_ranks();
  for (TraceSlice& s : trace.slices) s.start = s.transfer = s.end = ns(40);
  trace.slices[1].peer = no_slice;
  trace.slices[0].cause = 2;  // and 2 is released by 1, 1 by 0
  trace.slices[0].release = Release::wait;
  CHECK(critical_path(trace).empty());
}
