#include "models/module_graph.h"

#include <algorithm>
#include <boost/graph/reverse_graph.hpp>
#include <boost/graph/topological_sort.hpp>

#include "sim/base/error.h"

namespace meshweave {
namespace {

// Walks against the edges from `from` until `found` holds for a vertex behind it.
template <class Found>
bool any_before(const ModuleGraph& graph, std::size_t from, const Found& found) {
  std::vector<bool> seen(num_vertices(graph), false);
  std::vector<std::size_t> open{from};
  while (!open.empty()) {
    const std::size_t v = open.back();
    open.pop_back();
    for (const EdgeOfModules e : inputs_of(graph, v)) {
      const std::size_t u = source(e, graph);
      if (seen[u]) continue;
      if (found(u)) return true;
      seen[u] = true;
      open.push_back(u);
    }
  }
  return false;
}

// Extends `path` along edges until a vertex comes again; true when one did.
bool walk_to_cycle(const ModuleGraph& graph, std::vector<std::size_t>& path, std::vector<bool>& finished) {
  for (const EdgeOfModules e : outputs_of(graph, path.back())) {
    const std::size_t next = target(e, graph);
    if (finished[next]) continue;
    const auto before = std::find(path.begin(), path.end(), next);
    if (before != path.end()) {
      path.erase(path.begin(), before);
      path.push_back(next);
      return true;
    }
    path.push_back(next);
    if (walk_to_cycle(graph, path, finished)) return true;
    path.pop_back();
  }
  finished[path.back()] = true;
  return false;
}

}  // namespace

std::string_view name_of(CpItems items) {
  switch (items) {
    case CpItems::replicated: return "replicated";
    case CpItems::divided: return "divided";
  }
  bug("a division of items without a name");
}

std::vector<std::size_t> topological_order(const ModuleGraph& graph) {
  // Boost finishes a vertex behind all that it reaches; against the edges these are the vertices that feed it.
  const auto reversed = boost::make_reverse_graph(graph);
  std::vector<std::size_t> order;
  boost::topological_sort(reversed, std::back_inserter(order));
  return order;
}

std::vector<std::size_t> find_cycle(const ModuleGraph& graph) {
  std::vector<bool> finished(num_vertices(graph), false);
  for (std::size_t v = 0; v < num_vertices(graph); ++v) {
    std::vector<std::size_t> path{v};
    if (!finished[v] && walk_to_cycle(graph, path, finished)) return path;
  }
  return {};
}

std::size_t sink_module(const ModuleGraph& graph) {
  for (std::size_t v = 0; v < num_vertices(graph); ++v) {
    if (out_degree(v, graph) == 0) return v;
  }
  bug("a module graph without an end");
}

std::vector<EdgeOfModules> outputs_of(const ModuleGraph& graph, std::size_t vertex) {
  const auto [begin, end] = out_edges(vertex, graph);
  return {begin, end};
}

std::vector<EdgeOfModules> inputs_of(const ModuleGraph& graph, std::size_t vertex) {
  const auto [begin, end] = in_edges(vertex, graph);
  return {begin, end};
}

bool precedes(const ModuleGraph& graph, std::size_t from, std::size_t to) {
  return any_before(graph, to, [&](std::size_t v) { return v == from; });
}

bool trains_before(const ModuleGraph& graph, std::size_t vertex) {
  return any_before(graph, vertex, [&](std::size_t v) { return !graph[v].frozen; });
}

bool has_backward(const ModuleGraph& graph, std::size_t vertex) {
  return !graph[vertex].frozen || trains_before(graph, vertex);
}

std::int64_t item_positions(const ModuleGraph& graph) {
  std::int64_t positions = 0;
  for (const EdgeOfModules e : inputs_of(graph, sink_module(graph))) positions += graph[e].tokens;
  return positions;
}

std::int64_t parameter_count(const ModuleGraph& graph, std::int64_t vocabulary_rows) {
  std::int64_t count = 0;
  for (std::size_t v = 0; v < num_vertices(graph); ++v) count += parameter_count(graph[v].shape, vocabulary_rows);
  return count;
}

std::int64_t trained_parameter_count(const ModuleGraph& graph, std::int64_t vocabulary_rows) {
  std::int64_t count = 0;
  for (std::size_t v = 0; v < num_vertices(graph); ++v) {
    if (!graph[v].frozen) count += parameter_count(graph[v].shape, vocabulary_rows);
  }
  return count;
}

double model_flops_per_sample(const ModuleGraph& graph, std::size_t vertex, std::int64_t vocabulary_rows, bool train) {
  const Module& module = graph[vertex];
  const double passes = !train ? 1 : !module.frozen ? 3 : trains_before(graph, vertex) ? 2 : 1;
  return passes * static_cast<double>(module.rows_per_sample()) *
         forward_flops_per_token(module.shape, vocabulary_rows);
}

}  // namespace meshweave
