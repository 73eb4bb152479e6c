#include "sim/execute/flow_solver.h"

#include <csignal>
#include <set>
#include <simgrid/kernel/resource/Action.hpp>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>
#include <unordered_map>

#include "sim/base/error.h"

namespace meshweave {
namespace {

namespace s4u = simgrid::s4u;
namespace kernel = simgrid::kernel;

// A zone of two hosts whose route from the first to the second is whatever the next flow takes.
class RouteZone : public kernel::routing::NetZoneImpl {
 public:
  RouteZone() : NetZoneImpl("cluster") {}

  void add_link(double bytes_per_s) {
    s4u::Link* link = get_iface()->create_link("link" + std::to_string(links_.size()), bytes_per_s)->seal();
    links_.push_back(get_link_list_impl({s4u::LinkInRoute(link)}, false).front());
  }
  void set_route(const std::vector<std::uint32_t>& route) { route_ = &route; }

  void get_local_route(const kernel::routing::NetPoint*, const kernel::routing::NetPoint*,
                       kernel::routing::Route* into, double*) override {
    for (const std::uint32_t link : *route_) into->link_list_.push_back(links_[link]);
  }
  void get_graph(const s_xbt_graph_t*, std::map<std::string, xbt_node_t, std::less<>>*,
                 std::map<std::string, xbt_edge_t, std::less<>>*) override {}

 private:
  std::vector<kernel::resource::StandardLinkImpl*> links_;
  const std::vector<std::uint32_t>* route_ = nullptr;
};

// Makes SimGrid's engine, and leaves the handler of Ctrl-C as it was.
std::unique_ptr<s4u::Engine> make_engine() {
  ensure(!s4u::Engine::has_instance(), "SimGrid's engine exists already in this process");
  std::vector<std::string> options = {
      "meshweave",
      "--log=root.thres:error",
      "--cfg=network/model:CM02",
      "--cfg=network/crosstraffic:0",
      "--cfg=surf/precision:1e-12",
      "--cfg=contexts/stack-size:64",
      "--cfg=debug/verbose-exit:0",
  };
  std::vector<char*> arguments;
  for (std::string& option : options) arguments.push_back(option.data());
  int count = static_cast<int>(arguments.size());
  struct sigaction on_interrupt = {};
  sigaction(SIGINT, nullptr, &on_interrupt);
  auto engine = std::make_unique<s4u::Engine>(&count, arguments.data());
  sigaction(SIGINT, &on_interrupt, nullptr);
  return engine;
}

}  // namespace

struct FlowSolver::Engine {
  std::unique_ptr<s4u::Engine> engine = make_engine();
  RouteZone* zone = new RouteZone();  // owned by SimGrid
  s4u::Host* source = nullptr;
  s4u::Host* destination = nullptr;
  kernel::resource::Model* network = nullptr;
  std::unordered_map<const kernel::resource::Action*, std::uint32_t> flows;
  std::vector<std::uint32_t> ended;
  // A non-empty set of vetoed activities is how run_until() is told to return: it holds `stop` when flows
  // ended.
  s4u::CommPtr stop = s4u::Comm::sendto_init();
  std::set<s4u::Activity*> vetoed;

  // Called after each move of the clock, before SimGrid forgets the actions that ended.
  void collect_ended() {
    for (const kernel::resource::Action& action : *network->get_finished_action_set()) {
      const auto flow = flows.find(&action);
      if (flow == flows.end()) continue;
      ended.push_back(flow->second);
      flows.erase(flow);
    }
    if (!ended.empty()) vetoed.insert(stop.get());
  }
};

FlowSolver::FlowSolver(const std::vector<double>& rates) : engine_(std::make_unique<Engine>()) {
  Engine& e = *engine_;
  e.source = e.zone->get_iface()->create_host("source", 1.0);
  e.destination = e.zone->get_iface()->create_host("destination", 1.0);
  for (const double rate : rates) e.zone->add_link(rate);
  e.zone->get_iface()->seal();
  for (kernel::resource::Model* model : e.engine->get_all_models()) {
    if (model->get_name() == "Network_CM02") e.network = model;
  }
  ensure(e.network != nullptr, "SimGrid has no network model CM02");
  e.engine->track_vetoed_activities(&e.vetoed);
  s4u::Engine::on_time_advance_cb([&e](double) { e.collect_ended(); });
}

FlowSolver::~FlowSolver() = default;

// The payload of a communication is a whole number of bytes; its action takes the exact one, and the cap.
void FlowSolver::start(std::uint32_t flow, const std::vector<std::uint32_t>& links, double bytes,
                       double cap) {
  Engine& e = *engine_;
  e.zone->set_route(links);
  s4u::Comm::sendto_init(e.source, e.destination)
      ->set_payload_size(static_cast<std::uint64_t>(bytes) + 1)
      ->detach();
  kernel::resource::Action& action = e.network->get_started_action_set()->back();
  action.set_cost(bytes);
  action.set_remains(bytes);
  action.set_bound(std::min(cap, action.get_bound()));
  e.flows.emplace(&action, flow);
}

std::size_t FlowSolver::active() const {
  return engine_->flows.size();
}

double FlowSolver::clock() const {
  return s4u::Engine::get_clock();
}

// One call of run_until() moves the clock once: to the limit or to the first end.
void FlowSolver::advance(double limit, std::vector<std::uint32_t>& ended) {
  Engine& e = *engine_;
  e.vetoed.clear();
  e.ended.clear();
  if (limit < 0) {
    e.engine->run();
  } else if (limit > clock()) {
    e.engine->run_until(limit);
  }
  ended.insert(ended.end(), e.ended.begin(), e.ended.end());
}

}  // namespace meshweave
