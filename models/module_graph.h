// The module graph: what is trained, as a directed acyclic graph of modules.
//
//   encoder ─► projector ─┐
//   encoder ─► projector ─┴► language model, the sink
//
// A dense language model alone is a graph of one vertex. Vertices stand in the order of the scenario's "model", edges
// in that of its "edges".
//
// An encoder turns the `items` items of a sample (images, stretches of sound), each `shape.sequence` input tokens of
// `shape.input_width` features, into as many rows of `shape.hidden` features. Attention stays inside an item, so that a
// micro-batch of an encoder is micro · items sequences. A projector makes of every `merge` consecutive rows of an item
// one row as wide as the language model: its input has merge · hidden features. An encoder may feed several modules.
// The rows of an edge into the language model take the place of its token embeddings at the positions [first, first +
// tokens) of every sample, item by item: behind the table (and its reduction over tp), before learned positions and
// dropout. The shares of the edges stand one behind the other from position 0 on, in the order of the edges. A
// text-only sample has no items: all of its positions keep their token embeddings, and the modules before the language
// model do not see it.
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/transformer.h"

namespace meshweave {

// What the cp ranks of an encoder's host do with the items of a micro-batch: all compute all, or each its contiguous
// part of the micro · items sequences. An item is never cut.
enum class CpItems : std::uint8_t { replicated, divided };
std::string_view name_of(CpItems);

// Where a module stands inside its host: with the host's first virtual stage when it precedes the host in the graph,
// with the last when it follows.
enum class HostStage : std::uint8_t { first, last };

struct Module {
  std::string name;  // the user's key, for example "language"
  TransformerShape shape;
  std::int64_t items = 1;  // sequences per sample: items of an encoder and its projectors, 1 of a language model
  bool frozen = false;     // no parameter gradients, no optimizer state
  CpItems cp_items = CpItems::replicated;
  int inside = -1;  // the vertex of its host, resolved to one with a layout of its own; −1: it has a layout itself
  HostStage host_stage = HostStage::first;

  bool hosted() const { return inside >= 0; }
  std::int64_t rows_per_sample() const { return items * shape.sequence; }
};

struct ModuleEdge {
  std::int64_t merge = 1;  // consecutive rows of the source that make one row of the target
  // Into the language model, per sample with items:
  double fraction = 0;      // share of its positions that the rows take
  std::int64_t first = 0;   // their first position
  std::int64_t tokens = 0;  // how many they are
};

using ModuleGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Module, ModuleEdge>;
using EdgeOfModules = boost::graph_traits<ModuleGraph>::edge_descriptor;

// The vertices, each behind all that feed it, in the order of the vertices otherwise.
std::vector<std::size_t> topological_order(const ModuleGraph& graph);
// A cycle as vertices, the first one again at the end; empty in a DAG.
std::vector<std::size_t> find_cycle(const ModuleGraph& graph);
// The vertex in which the graph ends: the language model.
std::size_t sink_module(const ModuleGraph& graph);
// Edges out of, and into, a module, in the order of the scenario.
std::vector<EdgeOfModules> outputs_of(const ModuleGraph& graph, std::size_t vertex);
std::vector<EdgeOfModules> inputs_of(const ModuleGraph& graph, std::size_t vertex);
// Whether rows of `from` reach `to` along edges.
bool precedes(const ModuleGraph& graph, std::size_t from, std::size_t to);

// Whether a module before `vertex` is trained: then the gradient of its input is needed.
bool trains_before(const ModuleGraph& graph, std::size_t vertex);
// Whether `vertex` has a backward pass at all: it is trained itself, or hands gradients down.
bool has_backward(const ModuleGraph& graph, std::size_t vertex);

// Positions of a sample with items that hold rows of edges, not text.
std::int64_t item_positions(const ModuleGraph& graph);

// Parameters of all modules, or of those that are trained; tables with `vocabulary_rows` rows.
std::int64_t parameter_count(const ModuleGraph& graph, std::int64_t vocabulary_rows);
std::int64_t trained_parameter_count(const ModuleGraph& graph, std::int64_t vocabulary_rows);

// Model FLOPs of a module for one sample. Training: 3 × forward; frozen, 2 × where it hands gradients down and 1 ×
// where it does not.
double model_flops_per_sample(const ModuleGraph& graph, std::size_t vertex, std::int64_t vocabulary_rows, bool train);

}  // namespace meshweave
