// What an op waits for, derived from the program alone.
//
// An op starts when (1) the op before it on its stream has ended; (2) unless it is on the compute stream, every op
// issued before it on the compute stream has ended; (3) every earlier op on another stream that touches its bytes
// has ended, where at least one of the two writes them. There are no other dependencies. Waits are derived on the
// doubled body, so that a step also waits for what the step before left running.
//
// A wait that follows from others (the stream order or an earlier wait of the same stream) is left out: each op
// has at most one wait per other stream, the latest op that it needs there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/program.h"

namespace meshweave {

struct Wait {
  std::uint32_t op = 0;        // index into Body::ops
  bool previous_step = false;  // the occurrence of the step before
};

struct Waits {
  std::vector<std::uint32_t> first;  // ops + 1 entries into `waits`
  std::vector<Wait> waits;
  // clock[op·streams + stream]: ops of this step on `stream` known to have ended when `op` starts, as 1 + the index
  // of the latest; 0 for none.
  std::vector<std::uint32_t> clock;
  std::size_t streams = 0;

  std::span<const Wait> of(std::size_t op) const { return {waits.data() + first[op], first[op + 1] - first[op]}; }
};

Waits derive_waits(const Program& program, const Body& body);

}  // namespace meshweave
