// Walks a rank's actions over the parts of the modules that it holds, and fills its body with them.
//
// A body is named by its key: which part of each module its ranks hold. Ranks with equal keys share the body.
#pragma once

#include <compare>
#include <vector>

#include "sim/base/error.h"
#include "sim/lower/stage_lowering.h"

namespace meshweave {

struct PartKey {
  std::size_t module = 0;
  int variant = -1;  // the rank's part of the sequence, where the work of attention depends on it; else −1
  int pp = 0;        // pipeline coordinate
  auto operator<=>(const PartKey&) const = default;
};
using BodyKey = std::vector<PartKey>;  // by module, those that the rank holds a part of

// "stage 1, sequence part 0".
std::string name_of(const BodyKey& key);

// A part with what it is stamped from.
struct PartInput {
  PartKey key;
  const ModuleContext* context = nullptr;
  const ModuleBlocks* blocks = nullptr;
};

// Throws Interrupted when `interrupt` becomes non-zero.
void lower_rank(ProgramBuilder& builder, Body& body, const std::vector<PartInput>& parts,
                const InterruptFlag* interrupt);

}  // namespace meshweave
