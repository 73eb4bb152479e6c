#include "sim/execute/simgrid_network.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "sim/base/error.h"
#include "sim/cost/transfer_flows.h"
#include "sim/execute/flow_solver.h"
#include "topologies/link_graph.h"

namespace meshweave {
namespace {

constexpr std::uint32_t no_flow = 0xffffffff;

// The links' rates under the perturbations of the ranks at their ends.
std::vector<double> link_rates(const LinkGraph& graph, const Cluster& cluster, const Perturbations& perturbations) {
  const auto factor_at = [&](std::uint32_t vertex, LinkClass kind) {
    const auto rank = static_cast<int>(vertex);
    if (rank >= cluster.ranks()) return 1.0;
    return kind == LinkClass::nic ? perturbations.nic_factor(rank) : perturbations.intra_factor(rank);
  };
  std::vector<double> rates;
  rates.reserve(graph.links().size());
  for (const Link& link : graph.links()) {
    const double factor = std::min(factor_at(link.from, link.kind), factor_at(link.to, link.kind));
    rates.push_back(link.bytes_per_s * factor);
  }
  return rates;
}

// The links between two ranks, and what the slowest of them carries.
struct Path {
  std::vector<std::uint32_t> links;
  double rate = 0;
};

struct ActiveFlow {
  const Path* path = nullptr;
  std::uint32_t transfer = 0;
  std::uint32_t version = 0;  // counts the flows that used this entry
  double bytes = 0;           // at `begin`
  double rate = 0;            // while alone
  double cap = 0;
  Picoseconds begin{0};
  bool alone = false;  // not in the solver
};

struct LinkState {
  std::uint32_t flows = 0;
  std::uint32_t only = no_flow;  // the flow that has met no other here; all that have met are in the solver
};

struct PredictedEnd {
  Picoseconds time{0};
  std::uint32_t flow = 0;
  std::uint32_t version = 0;
  bool operator>(const PredictedEnd& other) const { return time != other.time ? time > other.time : flow > other.flow; }
};

class SimgridNetwork final : public Network {
 public:
  SimgridNetwork(const Cluster& cluster, const Perturbations& perturbations, SolverUse use)
      : cluster_(cluster),
        use_(use),
        graph_(cluster),
        rates_(link_rates(graph_, cluster, perturbations)),
        solver_(make_flow_solver(rates_)),
        links_(rates_.size()),
        carried_(rates_.size(), 0.0) {}

  std::optional<Picoseconds> end_alone(const Transfer& transfer, Picoseconds begin) override {
    if (!flows_of(transfer).empty()) return std::nullopt;
    return begin;
  }

  void start(std::uint32_t id, const Transfer& transfer) override {
    const std::vector<Flow>& flows = flows_of(transfer);
    if (open_flows_.size() <= id) open_flows_.resize(id + 1, 0);
    open_flows_[id] = static_cast<std::uint32_t>(flows.size());
    for (const Flow& flow : flows) start_flow(id, flow, transfer.recorded);
  }

  Picoseconds advance(Picoseconds limit, std::vector<std::uint32_t>& ended) override;

  std::vector<LinkUse> links() const override {
    std::vector<LinkUse> result;
    for (std::uint32_t link = 0; link < carried_.size(); ++link) {
      if (carried_[link] > 0) result.push_back({graph_.link_name(link), carried_[link], rates_[link]});
    }
    return result;
  }

 private:
  const std::vector<Flow>& flows_of(const Transfer& transfer);
  const Path& path(int source, int destination);
  void start_flow(std::uint32_t transfer, const Flow& flow, bool recorded);
  void give_to_solver(std::uint32_t flow);
  void end_flow(std::uint32_t flow, std::vector<std::uint32_t>& ended);

  const Cluster& cluster_;
  const SolverUse use_;
  const LinkGraph graph_;
  const std::vector<double> rates_;
  const std::unique_ptr<FlowSolver> solver_;
  Picoseconds now_{0};
  std::vector<LinkState> links_;
  std::vector<double> carried_;  // bytes of recorded transfers, by link
  std::vector<ActiveFlow> flows_;
  std::vector<std::uint32_t> free_flows_;
  std::vector<std::uint32_t> open_flows_;  // by transfer
  std::priority_queue<PredictedEnd, std::vector<PredictedEnd>, std::greater<>> predicted_;
  std::vector<std::uint32_t> solved_;
  std::unordered_map<std::uint64_t, Path> paths_;
  // Flows of a collective by its cost and its members, which both outlive the network.
  std::unordered_map<const void*, std::unordered_map<const void*, std::vector<Flow>>> collectives_;
  std::vector<Flow> message_;
};

const std::vector<Flow>& SimgridNetwork::flows_of(const Transfer& transfer) {
  if (transfer.message) {
    message_ = message_flows(cluster_, *transfer.cost, transfer.ranks[0], transfer.ranks[1]);
    if (message_[0].bytes <= 0 || message_[0].source == message_[0].destination) message_.clear();
    return message_;
  }
  const auto [known, fresh] = collectives_[transfer.cost].try_emplace(transfer.ranks.data());
  if (fresh) {
    known->second = collective_flows(cluster_, *transfer.cost, transfer.ranks);
    std::erase_if(known->second, [](const Flow& f) { return f.bytes <= 0 || f.source == f.destination; });
  }
  return known->second;
}

const Path& SimgridNetwork::path(int source, int destination) {
  const std::uint64_t key = static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(destination);
  const auto [known, fresh] = paths_.try_emplace(key);
  if (fresh) {
    known->second.links = graph_.route(source, destination);
    ensure(!known->second.links.empty(), "two ranks have no route");
    known->second.rate = rates_[known->second.links.front()];
    for (const std::uint32_t link : known->second.links) {
      known->second.rate = std::min(known->second.rate, rates_[link]);
    }
  }
  return known->second;
}

void SimgridNetwork::start_flow(std::uint32_t transfer, const Flow& flow, bool recorded) {
  std::uint32_t id = static_cast<std::uint32_t>(flows_.size());
  if (free_flows_.empty()) {
    flows_.emplace_back();
  } else {
    id = free_flows_.back();
    free_flows_.pop_back();
  }
  const Path& route = path(flow.source, flow.destination);
  ActiveFlow& active = flows_[id];
  active = {&route, transfer, active.version + 1, flow.bytes, std::min(flow.cap, route.rate), flow.cap, now_, true};
  bool shares = use_ == SolverUse::always;
  for (const std::uint32_t link : route.links) {
    LinkState& state = links_[link];
    if (state.flows > 0) {
      shares = true;
      if (state.only != no_flow && flows_[state.only].alone) give_to_solver(state.only);
    }
    state.only = state.flows == 0 ? id : no_flow;
    ++state.flows;
    if (recorded) carried_[link] += flow.bytes;
  }
  if (shares) {
    give_to_solver(id);
    return;
  }
  predicted_.push({now_ + picoseconds_from_seconds(active.bytes / active.rate), id, active.version});
}

// Hands over what is left of a flow that was alone until now.
void SimgridNetwork::give_to_solver(std::uint32_t id) {
  ActiveFlow& flow = flows_[id];
  flow.alone = false;
  const double left = flow.bytes - seconds_from_picoseconds(now_ - flow.begin) * flow.rate;
  if (solver_->active() == 0) {  // its clock stood still meanwhile
    std::vector<std::uint32_t> none;
    solver_->advance(seconds_from_picoseconds(now_), none);
  }
  solver_->start(id, flow.path->links, std::max(left, 0.0), flow.cap);
}

void SimgridNetwork::end_flow(std::uint32_t id, std::vector<std::uint32_t>& ended) {
  const ActiveFlow& flow = flows_[id];
  for (const std::uint32_t link : flow.path->links) {
    --links_[link].flows;
    links_[link].only = no_flow;
  }
  free_flows_.push_back(id);
  if (--open_flows_[flow.transfer] == 0) ended.push_back(flow.transfer);
}

Picoseconds SimgridNetwork::advance(Picoseconds limit, std::vector<std::uint32_t>& ended) {
  while (ended.empty()) {
    const auto stale = [&] {
      const ActiveFlow& flow = flows_[predicted_.top().flow];
      return flow.version != predicted_.top().version || !flow.alone;
    };
    while (!predicted_.empty() && stale()) predicted_.pop();
    const Picoseconds next = predicted_.empty() ? limit : std::min(limit, predicted_.top().time);
    if (solver_->active() > 0) {
      solved_.clear();
      const bool unlimited = next == Picoseconds::max();
      solver_->advance(unlimited ? -1 : seconds_from_picoseconds(next), solved_);
      if (!solved_.empty()) {
        now_ = std::clamp(picoseconds_from_seconds(solver_->clock()), now_, next);
        for (const std::uint32_t flow : solved_) end_flow(flow, ended);
        continue;
      }
    }
    if (next == Picoseconds::max()) return now_;  // nothing is under way
    now_ = next;
    if (predicted_.empty() || predicted_.top().time > now_) return now_;
    const std::uint32_t flow = predicted_.top().flow;
    predicted_.pop();
    end_flow(flow, ended);
  }
  return now_;
}

}  // namespace

std::unique_ptr<Network> make_simgrid_network(const Cluster& cluster, const Perturbations& perturbations,
                                              SolverUse use) {
  return std::make_unique<SimgridNetwork>(cluster, perturbations, use);
}

}  // namespace meshweave
