// A program in words, for people: streams, groups, then each body's ops with operands, shapes and waits.
#pragma once

#include <string>

#include "sim/program/program.h"

namespace meshweave {

// "d(qkv)[512,1,4608] bf16 layer 3 mb 0 partial tp"
std::string describe_tensor(const Program& program, const Body& body, std::uint32_t tensor);
// "op 17 matmul qkv backward-data, layer 3, micro-batch 0"
std::string describe_op(const Program& program, const Body& body, std::size_t op);
// `body` < 0 prints all bodies.
std::string print_program(const Program& program, int body = -1);

}  // namespace meshweave
