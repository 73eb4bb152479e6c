// The trace: who did what when in one step, as data. Simulated and measured runs fill the same structure, and the
// trace file (trace_writer.h, FORMAT.md) holds nothing that is not here.
//
// What is the same for many executions of an op stands once in the op table; a slice is one execution. Its cause is
// the slice whose end released it; a communication also names the member that came last:
//
//   rank 0 compute   [ fc2 ]            [ residual ]        residual: cause = all-reduce of rank 0, release = wait
//   rank 0 tensor           [~~~|=====]                     all-reduce: cause = fc2, peer = all-reduce of rank 1
//   rank 1 tensor               [=====]                     ~ waiting for rank 1, | transfer
//
// Times are picoseconds from an origin at or before the first slice. Slices stand in the order of their ranks, and
// within a rank in issue order; on one stream of one rank they never overlap.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/time.h"

namespace meshweave {

// The static part of an op.
struct TraceOp {
  std::string label;   // "qkv"
  std::string kind;    // "matmul"
  std::string phase;   // "forward"
  std::string module;  // "language"
  std::string group;   // of a collective: "tp"; else empty
  std::string shapes;  // "x[512,1,12288] bf16, W[…] bf16 -> y[…] bf16"
  double flops = 0;
  double bytes = 0;    // memory traffic of a kernel; payload of a communication
  std::string cost;    // what its duration was computed from
  std::string source;  // of the constants behind it
};

// What a slice is called in a viewer: the label, and which of its passes it is: "fc1", "fc1 dgrad", "fc1 wgrad",
// "fc1 recompute".
std::string slice_name(const TraceOp& op);

struct TraceStream {
  std::string name;
  std::string kind;  // "compute", "copy_out" and "copy_in"; anything else is a kind of communication
};

struct TraceRank {
  int rank = 0;
  std::string label;   // parallel coordinates: "tp0 dp3 pp1"
  int stands_for = 1;  // ranks that behave exactly as this one, itself included
};

// Why an op was launched at the time it was.
enum class Release : std::uint8_t {
  none,    // start of the step
  stream,  // the op before on its stream ended
  wait,    // an op of another stream of the same rank ended
  host,    // the host issued it only then; the cause is the op that the host waited for, if any
};
std::string_view name_of(Release);

constexpr std::uint32_t no_slice = 0xffffffff;

struct TraceSlice {
  Picoseconds start{0};     // launch
  Picoseconds transfer{0};  // communications: when all members were there; else = start
  Picoseconds end{0};
  std::uint32_t op = 0;            // index into Trace::ops
  std::uint32_t rank = 0;          // index into Trace::ranks
  std::uint32_t cause = no_slice;  // same rank; no_slice for none and where it was left out
  std::uint32_t peer = no_slice;   // communications: the slice of the member that came last, if not this one
  std::int16_t layer = -1;
  std::int16_t micro_batch = -1;
  std::int16_t chunk = -1;
  std::uint8_t stream = 0;  // index into Trace::streams
  Release release = Release::none;
  bool previous_step = false;  // the cause is its occurrence in the step before, not the slice itself
  bool operator==(const TraceSlice&) const = default;
};

// A message, or the last member of a collective and one that waited for it.
struct TraceFlow {
  std::uint32_t from = 0;  // slices
  std::uint32_t to = 0;
  bool operator==(const TraceFlow&) const = default;
};

// Bytes alive on a rank from `time` on; one entry per memory category in Trace::memory_bytes.
struct TraceMemory {
  Picoseconds time{0};
  std::uint32_t rank = 0;  // index into Trace::ranks
  bool operator==(const TraceMemory&) const = default;
};

struct TraceLink {
  std::string link;
  double bytes = 0;        // carried over the step
  double bytes_per_s = 0;  // capacity
};

// Of a trace of numbers.
struct TraceEmulation {
  std::string model_scale;  // "full" or "tiny"
  std::string precision;    // "double" or "float"
  int steps = 0;
  bool operator==(const TraceEmulation&) const = default;
};

struct TraceProvenance {
  std::string tool;  // "meshweave 0.1.0"
  std::string executor;
  std::string name;      // of the scenario
  std::string scenario;  // its file
  std::int64_t seed = 0;
  std::vector<std::pair<std::string, std::string>> inputs;  // file, hash of its content
  std::string resolved;                                     // JSON of the resolved scenario; may be empty
  std::string left_out;                                     // what was not written, for people; empty for nothing
  std::optional<TraceEmulation> emulation{};                // executor "numeric"
};

struct Trace {
  TraceProvenance provenance;
  Picoseconds step_begin{0};  // the recorded step lies between these two
  Picoseconds step_end{0};
  std::vector<TraceOp> ops;
  std::vector<TraceStream> streams;  // stream 0 is the compute stream
  std::vector<TraceRank> ranks;      // ascending
  std::vector<TraceSlice> slices;
  std::vector<TraceFlow> flows;
  std::vector<std::string> memory_categories;
  std::vector<TraceMemory> memory;         // by rank, times ascending
  std::vector<std::int64_t> memory_bytes;  // memory.size() × memory_categories.size()
  std::vector<TraceLink> links;
};

// Whole nanoseconds, rounded down: the resolution of a trace file.
constexpr std::int64_t floor_nanoseconds(Picoseconds t) {
  const std::int64_t ps = t.count();
  return ps >= 0 ? ps / 1000 : -((-ps + 999) / 1000);
}

}  // namespace meshweave
