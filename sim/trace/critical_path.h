// The critical path of a step: the chain of causes from the op that ends last back to the start of the step.
//
// Each piece of the path is an op that runs, a transfer, or the host that issues; together they cover the step
// without gap, so shortening anything off the path does not shorten the step. A communication that began with the
// launch of another member leads to that member: that is how a slow rank is found.
//
//   rank 1  [ slow matmul      ][=all-reduce=]
//   rank 0  [ matmul ]~~~~~~~~~~[=all-reduce=][ add ]      path: slow matmul, all-reduce, add
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/trace/trace.h"

namespace meshweave {

constexpr std::uint64_t no_node = ~std::uint64_t{0};

struct PathNode {
  Picoseconds start{0};
  Picoseconds transfer{0};
  Picoseconds end{0};
  Release release = Release::none;
  std::uint64_t cause = no_node;  // no_node too where it lies in the step before
  std::uint64_t peer = no_node;   // communications: the same communication on the member that came last
};

enum class PathKind : std::uint8_t {
  op,     // the node runs (a kernel, or a transfer)
  host,   // the host had not issued the node yet
  start,  // nothing is known to have released the node
};

struct PathPiece {
  std::uint64_t node = 0;
  PathKind kind = PathKind::op;
  Picoseconds from{0};
  Picoseconds to{0};
};

// The path that ends with `last`, in ascending time, cut off at `begin`. `node_at` gives the node of an id.
std::vector<PathPiece> critical_path(std::uint64_t last, Picoseconds begin,
                                     const std::function<PathNode(std::uint64_t)>& node_at);

// The path of a trace: nodes are indices into Trace::slices.
std::vector<PathPiece> critical_path(const Trace& trace);

}  // namespace meshweave
