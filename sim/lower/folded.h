// Tensor and sequence parallelism folded onto one axis (TSP, arXiv 2604.26294): of D ranks each holds 1/D of the
// tokens and 1/D of every weight. Weights visit; every rank sums over all visitors by itself, so that activations need
// no all-reduce.
//
//   attention  for each owner r: broadcast of its packed qkv and projection shard (heads of shard r), local q, k, v,
//              all-gather of k and v along the sequence, attention, projection added to the sum
//   mlp        the packed fc1 and fc2 shards go round a ring; each adds its part of the ffn
//
//   backward   attention: derived; weights visit again unless they are kept (`regather`), k and v are gathered again,
//              gradients of visitors are reduced to their owner. mlp: the round again; a shard's gradient follows it
//              from rank to rank and comes home with the D-th hop.
//
// With `prefetch` n > 0 the projections of owner r + 1 are issued before the attention of owner r, whose gather they
// hide, and n shards are under way ahead; with 0 everything runs one behind the other. Embedding table and output layer
// are gathered whole; norms are replicated, their gradients summed over the axis.
#pragma once

#include "sim/lower/block.h"

namespace meshweave {

// norm1 → … → residual, and norm2 → … → residual.
Value folded_attention(BlockRecorder& r, Value x);
Value folded_mlp(BlockRecorder& r, Value x);
// A table of which the rank has a part of the rows, whole, for the product or look-up `use`.
Value gathered_table(BlockRecorder& r, Value own, const std::string& use);

}  // namespace meshweave
