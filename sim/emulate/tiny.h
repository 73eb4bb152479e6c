// A scenario made small enough to be emulated in a moment, whose program has the same kinds of ops on the
// same streams and groups.
//
// Kept: the module graph with its kinds, hosts, merges and what is frozen, tp, pp, vpp, the order of the axes, the
// schedule, what overlaps, recomputation, precision, and which stages have more layers than others. Shrunk, where they
// are larger: hidden, heads, ffn, vocabulary, layers per virtual stage (1, or 2 where a stage had more than the least),
// the sequence to the least from 8 on that the layout divides, dp to 2 (times 2 optimizer instances), samples of a
// micro-batch to 2, micro-batches to 2·PP·VPP. Of an encoder: items to 2 (or what cp divides), their tokens to twice
// what the merges need, two layers, input features to 6; the sequence then is at least twice the rows of the items.
// Where micro-batches are text only, the last one is. Left out: perturbations, published results, the baseline.
// `resolved_json` is that of the tiny scenario.
#pragma once

#include "sim/scenario/scenario.h"

namespace meshweave {

Scenario tiny_scenario(const Scenario& scenario);

}  // namespace meshweave
