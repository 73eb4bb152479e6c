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

  void get_local_route(const kernel::routing::NetPoint*, const kernel::routing::NetPoint*, kernel::routing::Route* into,
                       double*) override {
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

class SimgridFlowSolver final : public FlowSolver {
 public:
  explicit SimgridFlowSolver(const std::vector<double>& rates) {
    source_ = zone_->get_iface()->create_host("source", 1.0);
    destination_ = zone_->get_iface()->create_host("destination", 1.0);
    for (const double rate : rates) zone_->add_link(rate);
    zone_->get_iface()->seal();
    for (kernel::resource::Model* model : engine_->get_all_models()) {
      if (model->get_name() == "Network_CM02") network_ = model;
    }
    ensure(network_ != nullptr, "SimGrid has no network model CM02");
    engine_->track_vetoed_activities(&vetoed_);
    s4u::Engine::on_time_advance_cb([this](double) { collect_ended(); });
  }

  // The payload of a communication is a whole number of bytes; its action takes the exact one, and the cap.
  void start(std::uint32_t flow, const std::vector<std::uint32_t>& links, double bytes, double cap) override {
    zone_->set_route(links);
    s4u::Comm::sendto_init(source_, destination_)->set_payload_size(static_cast<std::uint64_t>(bytes) + 1)->detach();
    kernel::resource::Action& action = network_->get_started_action_set()->back();
    action.set_cost(bytes);
    action.set_remains(bytes);
    action.set_bound(std::min(cap, action.get_bound()));
    flows_.emplace(&action, flow);
  }

  std::size_t active() const override { return flows_.size(); }

  double clock() const override { return s4u::Engine::get_clock(); }

  // One call of run_until() moves the clock once: to the limit or to the first end.
  void advance(double limit, std::vector<std::uint32_t>& ended) override {
    vetoed_.clear();
    ended_.clear();
    if (limit < 0) {
      engine_->run();
    } else if (limit > clock()) {
      engine_->run_until(limit);
    }
    ended.insert(ended.end(), ended_.begin(), ended_.end());
  }

 private:
  // Called after each move of the clock, before SimGrid forgets the actions that ended.
  void collect_ended() {
    for (const kernel::resource::Action& action : *network_->get_finished_action_set()) {
      const auto flow = flows_.find(&action);
      if (flow == flows_.end()) continue;
      ended_.push_back(flow->second);
      flows_.erase(flow);
    }
    if (!ended_.empty()) vetoed_.insert(stop_.get());
  }

  std::unique_ptr<s4u::Engine> engine_ = make_engine();
  RouteZone* zone_ = new RouteZone();  // owned by SimGrid
  s4u::Host* source_ = nullptr;
  s4u::Host* destination_ = nullptr;
  kernel::resource::Model* network_ = nullptr;
  std::unordered_map<const kernel::resource::Action*, std::uint32_t> flows_;
  std::vector<std::uint32_t> ended_;
  // A non-empty set of vetoed activities is how run_until() is told to return: it holds `stop_` when flows
  // ended.
  s4u::CommPtr stop_ = s4u::Comm::sendto_init();
  std::set<s4u::Activity*> vetoed_;
};

}  // namespace
}  // namespace meshweave

// What the module is loaded for; sim/execute/flow_solver.cpp looks it up by name.
extern "C" meshweave::FlowSolver* meshweave_make_flow_solver(const std::vector<double>& rates) {
  return new meshweave::SimgridFlowSolver(rates);
}
