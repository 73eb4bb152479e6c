// Overlap of tensor-parallel matmuls with their gathers and scatters, in pieces of the sequence (as Transformer
// Engine's user buffers do for Megatron-LM's `tp_comm_overlap`).
//
//   all-gather, matmul       →  gather 0, gather 1, …, matmul 0, matmul 1, …      matmul i runs beside gather i + 1
//   matmul, reduce-scatter   →  matmul 0, scatter 0, matmul 1, scatter 1, …       scatter i runs beside matmul i + 1
//
// Piece i is the i-th of equal parts of every rank's sequence share, so that a piece is a smaller gather or scatter
// of the same kind. A backward's reduce-scatter stays whole: the weight gradient behind it hides it, as Megatron's
// bulk overlap does. The same holds for the gather of a weight gradient's input. One call of the host issues all pieces
// of an op.
#pragma once

#include "sim/lower/block.h"

namespace meshweave {

// Splits the pairs of the block's parts into `pieces`, which divide every sequence share. Run behind
// derive_backward: the adjoint rules know nothing of pieces.
void split_tensor_parallel(const ModuleContext& context, Block& block, int pieces);

}  // namespace meshweave
