// Ring attention (Liu et al. 2310.01889): keys and values go round the ranks of cp, one hop at a time.
//
//   forward    step s attends to the part that came s hops; oₛ and its log-sum-exp are merged into the result
//   backward   the same round again; dk and dv of a part travel with it, each rank adds its own, and the last hop
//              brings them home
//
// The next part is under way while one is in use; with `overlap.cp` off it is sent behind its use.
#pragma once

#include "sim/lower/block.h"

namespace meshweave {

// q, k, v are the rank's own, k and v those of its part of the sequence.
Value ring_attention(BlockRecorder& r, Value q, Value k, Value v);

}  // namespace meshweave
