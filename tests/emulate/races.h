// Races of a program: two ops of a rank that touch the same memory, at least one of them writing, and that
// nothing keeps apart.
//
// Every execution of an op gets a vector clock over the streams of all ranks: how much of each stream has
// surely ended when it is launched. It is launched behind the op before it on its stream, behind its waits,
// and behind the ops of the step before that have the memory of a storage that it is the first to touch; a
// communication ends when all its partners are launched. Memory is what the in-process backend uses: the
// places of tensors, and what is released there counts as written.
//
// Without a race all legal orders give the same values, since each read finds the same write.
#pragma once

#include <string>
#include <vector>

#include "sim/execute/backend.h"
#include "tests/emulate/prepared_program.h"

namespace meshweave::testing {

struct Races {
  std::string first;  // one of them, for people; empty where there is none
  // The operands that may hold another value: what is read while another op writes it, and what both of two
  // ops write. What is merely released has no reader behind it.
  struct Affected {
    OpCall call;
    std::uint32_t operand = 0;  // reads, then writes
  };
  std::vector<Affected> affected;
};

// Those of two steps.
Races find_races(const PreparedProgram& p);

}  // namespace meshweave::testing
