// The module graph: what is trained, as a directed acyclic graph of modules (encoders, projectors, an LLM).
//
// A dense language model alone is a graph of one vertex. Edges carry activations from a module to its consumer.
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <string>

#include "models/transformer.h"

namespace meshweave {

struct Module {
  std::string name;  // the user's key, for example "language"
  TransformerShape shape;
};

struct ModuleEdge {};

using ModuleGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Module, ModuleEdge>;

}  // namespace meshweave
