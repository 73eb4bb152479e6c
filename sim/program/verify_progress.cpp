#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "sim/program/print.h"
#include "sim/program/verify_parts.h"
#include "sim/program/waits.h"

namespace meshweave {
namespace {

constexpr std::uint32_t none = 0xffffffff;

// The order of events of one step at zero durations. Every op of every class has two events: it is posted,
// and it ends. An op is posted when the ops before it have ended: on its stream, those it waits for, the last
// one that holds the host, and (`serial`) the communication before it. It ends when it and its partners are
// posted.
class EventGraph {
 public:
  EventGraph(const Program& program, const RankClasses& classes, const PartnersByClass& partners,
             const std::vector<Waits>& waits, bool serial)
      : program_(program), classes_(classes), waits_(waits), serial_(serial) {
    first_op_.push_back(0);
    for (const int rank : classes.representative) {
      first_op_.push_back(first_op_.back() + static_cast<std::uint32_t>(body_of(rank).ops.size()));
    }
    group_partners(partners);
    for (const Body& body : program.bodies) order_.push_back(order_of(body));
  }

  std::size_t events() const { return 2 * std::size_t{first_op_.back()}; }

  // Calls `needed` with each event that must come before `event`.
  template <typename Function>
  void each_need(std::uint32_t event, Function needed) const {
    const std::uint32_t node = event / 2;
    if (event % 2 != 0) {
      needed(2 * node);
      for (std::uint32_t i = first_partner_[node]; i < first_partner_[node + 1]; ++i) needed(2 * partner_[i]);
      return;
    }
    const std::uint32_t c = class_of_node(node);
    const std::uint32_t op = node - first_op_[c];
    const std::uint32_t body = body_of_class(c);
    const auto ended = [&](std::uint32_t other) { needed(2 * (first_op_[c] + other) + 1); };
    const Order& before = order_[body][op];
    for (const std::uint32_t other : {before.on_stream, before.holding_host, before.communication}) {
      if (other != none) ended(other);
    }
    for (const Wait& w : waits_[body].of(op)) {
      if (!w.previous_step) ended(w.op);
    }
  }

  struct OpOfClass {
    std::uint32_t class_index;
    std::uint32_t op;
  };
  OpOfClass op_of(std::uint32_t event) const {
    const std::uint32_t c = class_of_node(event / 2);
    return {c, event / 2 - first_op_[c]};
  }

 private:
  struct Order {  // the ops before one, by reason
    std::uint32_t on_stream = none;
    std::uint32_t holding_host = none;
    std::uint32_t communication = none;
  };

  const Body& body_of(int rank) const { return program_.bodies[program_.body_of_rank[static_cast<std::size_t>(rank)]]; }
  std::uint32_t body_of_class(std::uint32_t c) const {
    return program_.body_of_rank[static_cast<std::size_t>(classes_.representative[c])];
  }
  std::uint32_t class_of_node(std::uint32_t node) const {
    const auto behind = std::upper_bound(first_op_.begin(), first_op_.end(), node);
    return static_cast<std::uint32_t>(behind - first_op_.begin()) - 1;
  }

  std::vector<Order> order_of(const Body& body) const {
    std::vector<Order> order(body.ops.size());
    std::vector<std::uint32_t> on_stream(program_.streams.size(), none);
    Order last;
    for (std::uint32_t op = 0; op < body.ops.size(); ++op) {
      const OpSpec& spec = program_.spec(body.ops[op]);
      order[op] = {on_stream[spec.stream], last.holding_host, none};
      on_stream[spec.stream] = op;
      if (spec.sync) last.holding_host = op;
      if (!serial_ || !is_communication(spec.kind)) continue;
      order[op].communication = last.communication;
      last.communication = op;
    }
    return order;
  }

  // Sorts the partners by op (counting sort over the nodes).
  void group_partners(const PartnersByClass& partners) {
    first_partner_.assign(first_op_.back() + 1, 0);
    for (std::size_t c = 0; c < partners.size(); ++c) {
      for (const Partner& p : partners[c]) ++first_partner_[first_op_[c] + p.op + 1];
    }
    for (std::size_t i = 1; i < first_partner_.size(); ++i) first_partner_[i] += first_partner_[i - 1];
    partner_.resize(first_partner_.back());
    std::vector<std::uint32_t> next(first_partner_.begin(), first_partner_.end() - 1);
    for (std::size_t c = 0; c < partners.size(); ++c) {
      for (const Partner& p : partners[c]) partner_[next[first_op_[c] + p.op]++] = first_op_[p.partner] + p.partner_op;
    }
  }

  const Program& program_;
  const RankClasses& classes_;
  const std::vector<Waits>& waits_;  // by body
  const bool serial_;
  std::vector<std::uint32_t> first_op_;       // by class: the node of its op 0
  std::vector<std::uint32_t> first_partner_;  // by node: into partner_
  std::vector<std::uint32_t> partner_;        // nodes
  std::vector<std::vector<Order>> order_;     // by body and op
};

// The events that never happen, by Kahn's algorithm: those on a cycle and those behind one.
std::vector<bool> stuck_events(const EventGraph& graph) {
  const std::size_t events = graph.events();
  std::vector<std::uint32_t> first(events + 1, 0);
  std::vector<std::uint32_t> missing(events, 0);
  for (std::uint32_t e = 0; e < events; ++e) {
    graph.each_need(e, [&](std::uint32_t need) {
      ++first[need + 1];
      ++missing[e];
    });
  }
  for (std::size_t e = 1; e <= events; ++e) first[e] += first[e - 1];
  std::vector<std::uint32_t> dependants(first.back());
  std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
  for (std::uint32_t e = 0; e < events; ++e) {
    graph.each_need(e, [&](std::uint32_t need) { dependants[next[need]++] = e; });
  }
  std::vector<std::uint32_t> ready;
  for (std::uint32_t e = 0; e < events; ++e) {
    if (missing[e] == 0) ready.push_back(e);
  }
  std::vector<bool> stuck(events, true);
  while (!ready.empty()) {
    const std::uint32_t e = ready.back();
    ready.pop_back();
    stuck[e] = false;
    for (std::uint32_t i = first[e]; i < first[e + 1]; ++i) {
      if (--missing[dependants[i]] == 0) ready.push_back(dependants[i]);
    }
  }
  return stuck;
}

// A cycle among the stuck events, each needing the next; it begins with its smallest event. Empty when none
// is stuck.
std::vector<std::uint32_t> find_cycle(const EventGraph& graph, const std::vector<bool>& stuck) {
  const auto start = std::find(stuck.begin(), stuck.end(), true);
  if (start == stuck.end()) return {};
  std::vector<std::uint32_t> path;
  std::vector<bool> on_path(stuck.size(), false);
  auto event = static_cast<std::uint32_t>(start - stuck.begin());
  while (!on_path[event]) {
    on_path[event] = true;
    path.push_back(event);
    std::uint32_t blocking = none;
    graph.each_need(event, [&](std::uint32_t need) {
      if (blocking == none && stuck[need]) blocking = need;
    });
    event = blocking;
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), event));
  std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
  return path;
}

class Deadlock {
 public:
  Deadlock(const RankClasses& classes, const EventGraph& graph, const Findings& findings)
      : classes_(classes), graph_(graph), findings_(findings) {}

  Violation describe(const std::vector<std::uint32_t>& cycle, bool serial) const {
    std::string text =
        serial ? "with one communication at a time these wait for each other: " : "these wait for each other: ";
    Violation violation;
    violation.fault = serial ? Fault::serial_deadlock : Fault::deadlock;
    violation.rank = rank_of(cycle[0]);
    violation.op = op_of(cycle[0]);
    const std::vector<std::uint32_t> turns = ends_of_runs(cycle);
    std::string separator;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const std::uint32_t needed = turns[(i + 1) % turns.size()];
      if (turns[i] / 2 == needed / 2) continue;  // an op ends after it is posted
      text += separator + step(turns[i], needed);
      separator = "; ";
      if (violation.other_rank < 0 && rank_of(needed) != violation.rank) {
        violation.other_rank = rank_of(needed);
        violation.other_op = op_of(needed);
      }
    }
    violation.text = std::move(text);
    return violation;
  }

 private:
  int rank_of(std::uint32_t event) const { return classes_.representative[graph_.op_of(event).class_index]; }
  int op_of(std::uint32_t event) const { return static_cast<int>(graph_.op_of(event).op); }
  std::string name(std::uint32_t event) const {
    return findings_.name_op(rank_of(event), static_cast<std::size_t>(op_of(event)));
  }

  // The events at which the cycle enters or leaves a rank: what lies between is the rank's own order.
  std::vector<std::uint32_t> ends_of_runs(const std::vector<std::uint32_t>& cycle) const {
    std::vector<std::uint32_t> kept;
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      const int before = rank_of(cycle[(i + cycle.size() - 1) % cycle.size()]);
      const int after = rank_of(cycle[(i + 1) % cycle.size()]);
      if (rank_of(cycle[i]) != before || rank_of(cycle[i]) != after) kept.push_back(cycle[i]);
    }
    return kept;
  }

  std::string step(std::uint32_t event, std::uint32_t needed) const {
    const bool needs_partner = rank_of(event) != rank_of(needed);
    return fmt::format("{} waits for {} {}", name(event), name(needed), needs_partner ? "to be posted" : "to end");
  }

  const RankClasses& classes_;
  const EventGraph& graph_;
  const Findings& findings_;
};

}  // namespace

void check_progress(const Program& program, const RankClasses& classes, const PartnersByClass& partners,
                    const std::vector<Waits>& waits, Findings& findings) {
  for (const bool serial : {false, true}) {
    findings.check_interrupt();
    const EventGraph graph(program, classes, partners, waits, serial);
    const std::vector<std::uint32_t> cycle = find_cycle(graph, stuck_events(graph));
    if (cycle.empty()) continue;
    findings.add(Deadlock(classes, graph, findings).describe(cycle, serial));
    return;  // a program that deadlocks does so serially too
  }
}

}  // namespace meshweave
