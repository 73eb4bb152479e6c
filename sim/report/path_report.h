// The critical path through the recorded step and what it consists of.
//
// Folded runs record one rank per class: a path that leads to another rank continues on that rank's class.
#pragma once

#include "sim/report/partners.h"
#include "sim/report/stages.h"
#include "sim/trace/critical_path.h"

namespace meshweave {

// A node of the path is an op of a class.
constexpr std::uint64_t path_node(std::size_t c, std::uint32_t op) { return std::uint64_t{c} << 32 | op; }
constexpr std::size_t class_of_node(std::uint64_t node) { return static_cast<std::size_t>(node >> 32); }
constexpr std::uint32_t op_of_node(std::uint64_t node) { return static_cast<std::uint32_t>(node); }

std::vector<PathPiece> critical_path(const RunView& run);
PathReport make_path_report(const RunView& run, const StageIndex& index);

}  // namespace meshweave
