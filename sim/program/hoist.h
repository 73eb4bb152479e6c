// The overlap pass: tensor communications are issued as early as their operands allow, so that they run beside
// compute that does not need them.
//
// A communication off the compute stream waits for all compute issued before it, so its place in the issue order
// decides what it overlaps. The pass moves a communication on `stream` up behind the last op that it conflicts with
// (one of the two writes bytes that the other touches), past at most `depth` earlier communications of its stream, and
// never past another stream's communication or an op that holds the host. It passes a communication only together
// with compute above it: two that would run one behind the other keep their order.
#pragma once

#include "sim/program/program.h"

namespace meshweave {

void hoist_tensor_communication(const Program& program, Body& body, std::uint8_t stream, int depth);

// The same for gathers and broadcasts on a stream whose results are used up one behind the other (visiting weights,
// gathered keys and values): one moves up behind the last op that it conflicts with, but not above the first use of
// the result of the `depth`-th before it, so that at most depth + 1 results are held. Reductions on the stream move up
// behind their last conflict.
void hoist_visitors(const Program& program, Body& body, std::uint8_t stream, int depth);

}  // namespace meshweave
