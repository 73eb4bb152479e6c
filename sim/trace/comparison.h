// Where a step went in parts that add up to it, and how two steps differ part by part.
//
// A rank's parts are those of breakdown.h, told apart by what ran or was awaited; the parts of a step are the means
// over its ranks, in whole picoseconds. Means are rounded by the largest remainder, so each is within a picosecond of
// the exact one and they add up to the step exactly. The difference of two steps is then the sum of the differences of
// their parts, exactly:
//
//   part                          A    B   change
//   bubble                       15    4      -11
//   compute matmul               20   22       +2
//   exposed tensor all-reduce    10    9       -1
//   step                         45   35      -10
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/trace/trace.h"

namespace meshweave {

enum class PartKind : std::uint8_t {
  compute,    // an op runs that is neither of the next two
  recompute,  // an op of the phase "recompute" runs
  optimizer,  // an op of the phase "optimizer" runs
  exposed,    // idle, and a transfer runs that is awaited
  boundary,   // the same on a stream of the kind "boundary"
  bubble,     // idle, and a peer is awaited
  host,       // idle, and the host is awaited
  copy,       // idle, and a copy between host and device is awaited
};
constexpr PartKind all_part_kinds[] = {PartKind::compute,  PartKind::recompute, PartKind::optimizer, PartKind::exposed,
                                       PartKind::boundary, PartKind::bubble,    PartKind::host,      PartKind::copy};
std::string_view name_of(PartKind);

struct PartKey {
  PartKind part = PartKind::compute;
  std::string op;      // compute, recompute, exposed: the kind of the op, as TraceOp::kind; else empty
  std::string stream;  // exposed: the kind of the stream, as TraceStream::kind; else empty
  auto operator<=>(const PartKey&) const = default;
};

struct StepPart {
  PartKey key;
  Picoseconds time{0};
};

// The mean over some ranks.
struct PartMeans {
  std::int64_t ranks = 0;              // those that the trace's ranks stand for
  std::vector<StepPart> parts;         // by key; those of no time left out; they add up to the step
  std::int64_t peak_memory_bytes = 0;  // largest over the ranks

  Picoseconds of(PartKind part) const;
};

struct StageParts {
  std::string module;
  int stage = 0;  // pipeline coordinate
  PartMeans mean;
};

struct StepParts {
  Picoseconds step{0};
  PartMeans mean;
  std::vector<StageParts> stages;  // in order of their first rank
};

// Throws InputError, without a file, where the trace says that slices were left out, is one of numbers (its times are
// no times), or holds no ranks; and where slices stand in no possible order.
StepParts step_parts(const Trace& trace);

// One part in two steps.
struct PartChange {
  PartKey key;
  Picoseconds a{0}, b{0};
  Picoseconds change() const { return b - a; }
};

// Every part of either, the largest change first, equal ones by key. The changes add up to that of the steps.
std::vector<PartChange> compare_parts(const std::vector<StepPart>& a, const std::vector<StepPart>& b);

// A stage of either step; one that the other does not have stands alone.
struct StageChange {
  std::string module;
  int stage = 0;
  const PartMeans* a = nullptr;  // null: A has no such stage
  const PartMeans* b = nullptr;
};

// Matched by module and index where both have as many stages of the module; else those of A, then those of B, alone.
// The pointers lead into the arguments.
std::vector<StageChange> match_stages(const StepParts& a, const StepParts& b);

}  // namespace meshweave
