// Traces made by hand for tests.
#pragma once

#include "sim/trace/trace.h"

namespace meshweave {

inline Picoseconds ns(double nanoseconds) { return Picoseconds{static_cast<std::int64_t>(nanoseconds * 1000)}; }

inline TraceSlice slice(std::uint32_t rank, std::uint8_t stream, std::uint32_t op, double start, double transfer,
                        double end) {
  TraceSlice s;
  s.rank = rank, s.stream = stream, s.op = op;
  s.start = ns(start), s.transfer = ns(transfer), s.end = ns(end);
  return s;
}

// Two ranks, one all-reduce; rank 1 computes longer, so rank 0 waits for it:
//
//   rank 0 compute  [ matmul 0-10 ]                       [ add 35-40 ]
//   rank 0 tensor                  [10 ~~~~ 25 ==== 35]
//   rank 1 compute  [ matmul 0-25              ]          [ add 35-40 ]
//   rank 1 tensor                          [25 ==== 35]
inline Trace two_ranks() {
  Trace t;
  t.provenance = {"meshweave test",     "analytic",  "two ranks", "a \"quoted\" file.json", 7,
                  {{"a.json", "00ff"}}, "{\"x\":1}", ""};
  t.step_end = ns(40);
  t.ops = {{"fc1", "matmul", "forward", "language", "", "x[4,2] bf16, W[2,2] bf16 -> y[4,2] bf16", 32, 40, "2 tiles",
            "a table"},
           {"fc1 sum", "all_reduce", "forward", "language", "tp", "y[4,2] bf16 -> z[4,2] bf16", 0, 16, "ring", "a log"},
           {"residual", "add", "forward", "language", "", "z[4,2] bf16 -> r[4,2] bf16", 0, 48, "bytes", "a table"}};
  t.streams = {{"compute", "compute"}, {"tensor", "tensor"}};
  t.ranks = {{0, "tp0", 1}, {1, "tp1", 3}};
  t.slices = {slice(0, 0, 0, 0, 0, 10), slice(0, 1, 1, 10, 25, 35), slice(0, 0, 2, 35, 35, 40),
              slice(1, 0, 0, 0, 0, 25), slice(1, 1, 1, 25, 25, 35), slice(1, 0, 2, 35, 35, 40)};
  for (const std::uint32_t first : {0u, 3u}) {
    t.slices[first + 1].cause = first, t.slices[first + 1].release = Release::wait;
    t.slices[first + 2].cause = first + 1, t.slices[first + 2].release = Release::wait;
    t.slices[first].layer = 3, t.slices[first].micro_batch = 0, t.slices[first].chunk = 1;
  }
  t.slices[1].peer = 4;
  t.flows = {{4, 1}};
  t.memory_categories = {"parameters", "activations"};
  t.memory = {{ns(0), 0}, {ns(35), 0}, {ns(0), 1}};
  t.memory_bytes = {100, 0, 100, 64, 100, 0};
  t.links = {{"nic 0", 1e6, 5e10}};
  return t;
}

}  // namespace meshweave
