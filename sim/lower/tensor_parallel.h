// Tensor-parallel linear layers (Shoeybi et al. 1909.08053) and their sequence-parallel form (Korthikanti et al.
// 2205.05198): what stands before a column-parallel and behind a row-parallel matmul.
//
//                       tensor parallel      sequence parallel
//   enter (column)      nothing              all-gather along the sequence
//   leave (row)         all-reduce           reduce-scatter along the sequence
// Their gradients follow from the adjoint rules.
#pragma once

#include "sim/lower/block.h"

namespace meshweave {

// The input of a column-parallel matmul: all tokens.
Value enter_tensor_parallel(BlockRecorder& recorder, Value x, const std::string& label);
// The output of a row-parallel matmul (partial over tp): summed, and a sequence share under sequence parallelism.
Value leave_tensor_parallel(BlockRecorder& recorder, Value y, const std::string& name, const std::string& label);
// Sum or maximum over the tensor-parallel group, in place; `x` itself without tensor parallelism.
Value all_reduce_tensor(BlockRecorder& recorder, Value x, ReduceOp reduce, const std::string& name,
                        const std::string& label);

}  // namespace meshweave
