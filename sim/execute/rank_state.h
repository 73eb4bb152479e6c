// What the replay knows of one player (a simulated rank) at its present point: the host, the streams, the ops
// that are issued and not yet launched, and the compute op that runs.
//
// The body is scanned in issue order. An op off the compute stream waits for all earlier ops of the compute
// stream, so when the scan stands at a compute op that cannot start yet, nothing behind it can start either:
// only ops that were issued before (pending ones) may still launch.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/time.h"
#include "sim/execute/replay_tables.h"

namespace meshweave {

constexpr Picoseconds unknown_time = Picoseconds::max();

// An op of the first or the second play (step 0 or 1).
struct PlayedOp {
  std::uint32_t op = no_op;
  std::uint8_t step = 0;
};

// When the host issued an op, and the sync op that last held the host up before.
struct Issue {
  Picoseconds time{0};
  PlayedOp held_by;
};

struct PendingOp {
  PlayedOp played;
  Issue issue;
};

// One stream of a rank. Its ops launch in order, each when the one before has ended.
struct Lane {
  Picoseconds end{0};  // of the op launched last; unknown_time while it runs
  Picoseconds launch{0};
  PlayedOp played;            // the op launched last
  std::uint32_t pending = 0;  // ops issued and not launched
  // Of a batch of messages: how many are under way, and the one that ends last.
  std::uint32_t open_messages = 0;
  std::uint32_t last_message = 0;
  Picoseconds last_end{0};
  Picoseconds last_begin{0};
  int last_peer = -1;
};

// A communication of the rank, from its launch to its end: compute is slower meanwhile.
struct Residency {
  Picoseconds launch{0};
  Picoseconds end{0};
  std::uint8_t stream = 0;
};

// The compute op that runs, where communications of the rank slow it down.
struct RunningCompute {
  bool active = false;
  Picoseconds start{0};
  double work = 0;               // picoseconds at full speed
  Picoseconds predicted_end{0};  // if the rank hears of no communication before
  std::uint32_t prediction = 0;  // version; older events are void
};

struct RankState {
  const BodyTable* body = nullptr;
  Picoseconds* ends = nullptr;  // by step and slot
  Lane* lanes = nullptr;        // by stream
  int rank = 0;
  bool perturbed = false;          // compute durations differ from their prices
  bool queued = false;             // stands in the work list
  PlayedOp next{0, 0};             // where the scan stands; step 2 when all is issued
  Issue host;                      // the last issue
  PlayedOp sync;                   // the op issued last, if it holds the host
  std::vector<PendingOp> pending;  // in issue order
  std::vector<Residency> residencies;
  RunningCompute compute;

  Picoseconds& end_of(std::uint32_t slot, int step) {
    return ends[static_cast<std::size_t>(step) * body->slots + slot];
  }
};

// The end of a compute op of `work` that starts at `start` and runs at 1/slowdown while a communication is
// resident. Communications whose end is unknown are resident for ever.
Picoseconds slowed_end(Picoseconds start, double work, double slowdown, const std::vector<Residency>& residencies);

}  // namespace meshweave
