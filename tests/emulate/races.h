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

#include "tests/emulate/prepared_program.h"

namespace meshweave::testing {

// Runs two steps; empty, or the first race found, for people.
std::string find_race(const PreparedProgram& p);

}  // namespace meshweave::testing
