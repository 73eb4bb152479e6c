// Context parallelism: attention of queries that are sharded over the sequence, [s/cp, b, heads, d].
//
//   all-gather     keys and values of all ranks, in the order of the sequence (Llama 3, 2407.21783)
//   ring           they go round, and each part of the result is merged by its log-sum-exp (Liu et al. 2310.01889)
//   ulysses        an all-to-all turns shards of the sequence into shards of the heads, and back (2309.14509)
//   ulysses-ring   the all-to-all inside groups of ranks, the ring over the groups (Fang and Zhao 2405.07719)
//
// With zigzag order a rank holds segments p and 2n − 1 − p of 2n, so that a causal mask shows all ranks the same number
// of pairs; in contiguous parts rank p sees (p + ½)/n of them.
#pragma once

#include "sim/lower/block.h"

namespace meshweave {

// The context of the rank's queries over the whole sequence; plain attention without context parallelism.
Value attention_over_shards(BlockRecorder& r, Value q, Value k, Value v);

// Keys and values of the whole sequence: all-gathered over cp or tsp in one call, then put in the order of the
// sequence. `again`: how the results come back for the backward.
struct KeysValues {
  Value k = no_value, v = no_value;
};
KeysValues gather_in_rank_order(BlockRecorder& r, const std::string& label, Value k, Value v, ReEmit again);
KeysValues in_sequence_order(BlockRecorder& r, const std::string& label, const KeysValues& gathered, ReEmit again);

// OpAttributes::visible of the rank's queries over the whole sequence, and over the keys of the rank `hops` before.
double visible_of_sequence(const ModuleContext& context);
double visible_of_part(const ModuleContext& context, int hops);

}  // namespace meshweave
