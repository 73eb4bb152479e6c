// Shortest paths over a cluster's links with Boost.Graph: the general search that LinkGraph::route answers in
// constant time for the shapes it knows.
#pragma once

#include <cstdint>
#include <vector>

#include "topologies/link_graph.h"

namespace meshweave {

// One shortest path by link length; empty when there is none.
std::vector<std::uint32_t> shortest_route(const LinkGraph& graph, int source, int destination);
int route_length(const LinkGraph& graph, const std::vector<std::uint32_t>& route);

}  // namespace meshweave
