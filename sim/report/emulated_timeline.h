// The timeline of an emulated step in logical time: one tick per op, counted in the rounds of the
// interpreter, so that the order of an emulation can be looked at like a simulated one.
#pragma once

#include "sim/execute/interpreter.h"
#include "sim/execute/replay.h"

namespace meshweave {

constexpr Picoseconds logical_tick{1'000'000};  // a microsecond

// All ranks of the program, each a class of its own; of the last step of the run.
ReplayResult emulated_timeline(const Program& program, const Communicators& communicators,
                               const std::vector<Waits>& waits, const InterpreterRun& run);

}  // namespace meshweave
