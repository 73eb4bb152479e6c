#include "topologies/shortest_route.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>

namespace meshweave {
namespace {

struct LinkEdge {
  std::uint32_t link = 0;
  int length = 0;
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, LinkEdge>;

Graph boost_graph(const LinkGraph& links) {
  Graph graph(links.vertices());
  for (std::uint32_t l = 0; l < links.links().size(); ++l) {
    boost::add_edge(links.links()[l].from, links.links()[l].to, LinkEdge{l, links.length(l)}, graph);
  }
  return graph;
}

// The edge by which a shortest path reaches each vertex.
class ArrivalRecorder : public boost::default_dijkstra_visitor {
 public:
  explicit ArrivalRecorder(std::vector<std::int64_t>& arrivals) : arrivals_(&arrivals) {}
  void edge_relaxed(Graph::edge_descriptor edge, const Graph& graph) {
    (*arrivals_)[boost::target(edge, graph)] = graph[edge].link;
  }

 private:
  std::vector<std::int64_t>* arrivals_;
};

}  // namespace

std::vector<std::uint32_t> shortest_route(const LinkGraph& links, int source, int destination) {
  const Graph graph = boost_graph(links);
  constexpr std::int64_t none = -1;
  std::vector<std::int64_t> arrivals(links.vertices(), none);
  std::vector<int> distances(links.vertices());
  boost::dijkstra_shortest_paths(graph, static_cast<std::size_t>(source),
                                 boost::weight_map(boost::get(&LinkEdge::length, graph))
                                     .distance_map(distances.data())
                                     .visitor(ArrivalRecorder(arrivals)));
  std::vector<std::uint32_t> route;
  for (auto at = static_cast<std::uint32_t>(destination); at != static_cast<std::uint32_t>(source);) {
    if (arrivals[at] == none) return {};
    const auto link = static_cast<std::uint32_t>(arrivals[at]);
    route.push_back(link);
    at = links.links()[link].from;
  }
  std::reverse(route.begin(), route.end());
  return route;
}

int route_length(const LinkGraph& graph, const std::vector<std::uint32_t>& route) {
  int length = 0;
  for (const std::uint32_t link : route) length += graph.length(link);
  return length;
}

}  // namespace meshweave
