// The oracle of the replay: every op of the doubled program on every rank is a node; its end is the longest
// path to it.
//
// It shares no code with sim/execute or the derivation of waits. Everything is looked up naively by the
// definitions in replay.h and waits.h, in quadratic time; no jitter. With a slowdown the paths are found
// again and again, each time with compute stretched under the communications of the time before, until
// nothing changes.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "sim/base/time.h"
#include "tests/support/random_program.h"

namespace meshweave::testing {

class LongestPath {
 public:
  explicit LongestPath(const PlayableProgram& input) : in_(input) {
    forget();
    // A pass makes at least the earliest wrong node right, so there are never more passes than nodes.
    std::size_t limit = 1;
    for (const std::vector<Node>& nodes : nodes_) limit += nodes.size();
    for (std::size_t pass = 0; in_.costs.slowdown != 1; ++pass) {
      if (pass > limit) throw std::logic_error("the longest path with a slowdown does not settle");
      find_all();
      if (nodes_ == before_) break;
      before_ = nodes_;
      forget();
    }
  }

  // When op `op` of `rank` ends in step 0 or 1; launches likewise.
  std::int64_t end(int rank, int step, std::size_t op) {
    Node& n = node(rank, step, op);
    if (n.end < 0) n.end = compute_end(rank, step, op);
    return n.end;
  }
  std::int64_t launch(int rank, int step, std::size_t op) {
    Node& n = node(rank, step, op);
    if (n.launch < 0) n.launch = compute_launch(rank, step, op);
    return n.launch;
  }

 private:
  struct Node {
    std::int64_t issue = -1;
    std::int64_t launch = -1;
    std::int64_t end = -1;
    bool operator==(const Node&) const = default;
  };
  struct At {
    int step;
    std::size_t op;
  };

  void forget() {
    nodes_.clear();
    for (int rank = 0; rank < in_.program.ranks(); ++rank) nodes_.emplace_back(2 * body(rank).ops.size());
  }
  void find_all() {
    for (int rank = 0; rank < in_.program.ranks(); ++rank) {
      for (std::size_t i = 0; i < 2 * body(rank).ops.size(); ++i) {
        end(rank, static_cast<int>(i / body(rank).ops.size()), i % body(rank).ops.size());
      }
    }
  }

  const Body& body(int rank) const {
    return in_.program.bodies[in_.program.body_of_rank[static_cast<std::size_t>(rank)]];
  }
  const OpSpec& spec(int rank, std::size_t op) const { return in_.program.spec(body(rank).ops[op]); }
  Node& node(int rank, int step, std::size_t op) {
    return nodes_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(step) * body(rank).ops.size() + op];
  }

  // The ops issued before, both steps, latest first.
  std::vector<At> earlier(int rank, int step, std::size_t op) const {
    std::vector<At> result;
    for (std::size_t i = op; i-- > 0;) result.push_back({step, i});
    if (step == 1) {
      for (std::size_t i = body(rank).ops.size(); i-- > 0;) result.push_back({0, i});
    }
    return result;
  }

  bool conflict(int rank, At a, At b) const {
    const Body& code = body(rank);
    const auto touch = [&](std::span<const std::uint32_t> x, std::span<const std::uint32_t> y) {
      for (const std::uint32_t s : x) {
        for (const std::uint32_t t : y) {
          if (code.tensors[s].storage != code.tensors[t].storage) continue;
          if (a.step != b.step && !code.storages[code.tensors[s].storage].persistent) continue;
          const std::int64_t s_first = code.tensors[s].offset;
          const std::int64_t t_first = code.tensors[t].offset;
          const std::int64_t s_last = s_first + in_.program.tensor_specs[code.tensors[s].spec].bytes();
          const std::int64_t t_last = t_first + in_.program.tensor_specs[code.tensors[t].spec].bytes();
          if (s_first < t_last && t_first < s_last) return true;
        }
      }
      return false;
    };
    const Op& x = code.ops[a.op];
    const Op& y = code.ops[b.op];
    return touch(in_.program.writes(code, x), in_.program.writes(code, y)) ||
           touch(in_.program.reads(code, x), in_.program.writes(code, y)) ||
           touch(in_.program.writes(code, x), in_.program.reads(code, y));
  }

  std::int64_t issue(int rank, int step, std::size_t op) {
    Node& n = node(rank, step, op);
    if (n.issue >= 0) return n.issue;
    const std::vector<At> before = earlier(rank, step, op);
    n.issue = 0;
    if (!before.empty()) {
      const std::int64_t call = spec(rank, op).same_call ? 0 : in_.costs.host_issue.count();
      n.issue = issue(rank, before[0].step, before[0].op) + call;
      if (spec(rank, before[0].op).sync) n.issue = std::max(n.issue, end(rank, before[0].step, before[0].op));
    }
    return n.issue;
  }

  std::int64_t compute_launch(int rank, int step, std::size_t op) {
    std::int64_t at = issue(rank, step, op);
    for (const At b : earlier(rank, step, op)) {
      const bool same = spec(rank, b.op).stream == spec(rank, op).stream;
      const bool behind_compute = spec(rank, op).stream != 0 && spec(rank, b.op).stream == 0;
      if (same || behind_compute || conflict(rank, {step, op}, b)) at = std::max(at, end(rank, b.step, b.op));
    }
    return at;
  }

  double compute_factor(int rank) const {
    double factor = 1;
    for (const Perturbation& p : in_.perturb) {
      if (p.target == PerturbTarget::rank && p.index == rank) factor *= p.compute_time;
      if (p.target == PerturbTarget::node && p.index == rank / in_.costs.cluster.node.gpus) factor *= p.compute_time;
    }
    return factor;
  }

  double link_factor(const std::vector<int>& ranks, const char* link) const {
    double slowest = 1;
    for (const int rank : ranks) {
      double factor = 1;
      for (const Perturbation& p : in_.perturb) {
        if (p.target == PerturbTarget::link && p.index == rank && p.link == link) factor *= p.bandwidth;
      }
      slowest = std::min(slowest, factor);
    }
    return slowest;
  }

  // Achievable bytes/s inside the node: of a port, or of the `links` of a mesh that a member uses (but not more
  // than it has mates on the node with the fewest, at least two). The stripes of a message end at the destination
  // and at the mates of the lanes behind it.
  double inner_rate(std::vector<int> ranks, bool message, int links) const {
    const NodeModel& model = in_.costs.cluster.node;
    double rate = model.link_bytes_per_s * model.link_efficiency;
    if (model.fabric == NodeFabric::mesh && message) {
      rate *= links;
      for (int lane = 1; links > 1 && static_cast<int>(ranks.size()) < 1 + links; ++lane) {
        const int mate = ranks[1] / model.gpus * model.gpus + (ranks[1] + lane) % model.gpus;
        if (mate != ranks[0]) ranks.push_back(mate);
      }
    } else if (model.fabric == NodeFabric::mesh) {
      long fewest = model.gpus;
      for (int node = 0; node < in_.costs.cluster.nodes; ++node) {
        const long here = std::count_if(ranks.begin(), ranks.end(), [&](int r) { return r / model.gpus == node; });
        if (here > 1) fewest = std::min(fewest, here);
      }
      rate *= static_cast<double>(std::min<long>(links, fewest - 1));
    }
    return rate * link_factor(ranks, "intra");
  }

  std::int64_t transfer_time(const TransferCost& cost, const std::vector<int>& ranks, bool message) const {
    double seconds = 0;
    if (cost.intra_bytes > 0) {
      seconds = cost.intra_bytes / std::min(cost.intra_cap, inner_rate(ranks, message, cost.intra_links));
    }
    if (cost.nic_bytes > 0) {
      const NodeModel& model = in_.costs.cluster.node;
      const double rate = model.nic_bytes_per_s * model.nic_efficiency * link_factor(ranks, "nic");
      seconds = std::max(seconds, cost.nic_bytes / std::min(cost.nic_cap, rate));
    }
    return cost.startup.count() + std::llround(seconds * 1e12);
  }

  // The op of `rank` that is as many collectives on (group, stream) into the body as `op` is on `other`.
  std::size_t matching_collective(int rank, int other, std::size_t op) const {
    const OpSpec& wanted = spec(other, op);
    const auto matches = [&](const OpSpec& s) {
      return is_collective(s.kind) && s.group == wanted.group && s.stream == wanted.stream;
    };
    int before = 0;
    for (std::size_t i = 0; i < op; ++i) before += matches(spec(other, i)) ? 1 : 0;
    for (std::size_t i = 0;; ++i) {
      if (matches(spec(rank, i)) && before-- == 0) return i;
    }
  }

  std::int64_t end_collective(int rank, int step, std::size_t op) {
    const OpSpec& s = spec(rank, op);
    const Group& group = in_.program.groups[s.group];
    const std::vector<int> members = in_.program.grids[group.grid].group(rank, group.patterns);
    std::int64_t begin = 0;
    for (const int member : members) {
      begin = std::max(begin, launch(member, step, matching_collective(member, rank, op)));
    }
    const std::uint32_t instance = in_.communicators.by_group[s.group].instance_of[static_cast<std::size_t>(rank)];
    const TransferCost& cost = in_.costs.transfers[in_.costs.transfer_base[body(rank).ops[op].spec] + instance];
    return begin + transfer_time(cost, members, false);
  }

  std::int64_t end_batch(int rank, int step, std::size_t op) {
    std::int64_t last = launch(rank, step, op);
    for (const Message& m : in_.program.messages(body(rank), body(rank).ops[op])) {
      const int other = in_.program.peer_rank(rank, m.peer);
      std::size_t i = 0;
      while (!posts(other, i, m, rank)) ++i;
      const std::int64_t begin = std::max(launch(rank, step, op), launch(other, step, i));
      const std::vector<int> ends = m.send ? std::vector<int>{rank, other} : std::vector<int>{other, rank};
      const auto bytes = m.send ? sent_together(rank, op, m.tag) : sent_together(other, i, m.tag);
      const TransferCost cost = in_.costs.message(bytes, ends[0], ends[1], spec(rank, op).attributes.stripes);
      last = std::max(last, begin + transfer_time(cost, ends, true));
    }
    return last;
  }

  // What the sender's batch sends to one peer goes with the first of its messages.
  double sent_together(int rank, std::size_t op, std::uint64_t tag) const {
    const auto all = in_.program.messages(body(rank), body(rank).ops[op]);
    std::size_t own = 0;
    while (!all[own].send || all[own].tag != tag) ++own;
    double bytes = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].send || all[i].peer != all[own].peer) continue;
      if (i < own) return 0;
      bytes += static_cast<double>(in_.program.tensor_spec(body(rank), all[i].tensor).bytes());
    }
    return bytes;
  }

  bool posts(int rank, std::size_t op, const Message& wanted, int other) const {
    for (const Message& m : in_.program.messages(body(rank), body(rank).ops[op])) {
      if (m.tag == wanted.tag && m.send != wanted.send && in_.program.peer_rank(rank, m.peer) == other) {
        return true;
      }
    }
    return false;
  }

  std::int64_t compute_end(int rank, int step, std::size_t op) {
    const OpSpec& s = spec(rank, op);
    if (is_collective(s.kind)) return end_collective(rank, step, op);
    if (is_communication(s.kind)) return end_batch(rank, step, op);
    const std::int64_t price = in_.costs.compute[in_.program.body_of_rank[static_cast<std::size_t>(rank)]][op].count();
    const double factor = s.stream == 0 ? compute_factor(rank) : 1.0;
    const std::int64_t duration = std::llround(static_cast<double>(price) * factor);
    if (s.stream == 0 && !before_.empty()) return stretched_end(rank, launch(rank, step, op), duration);
    return launch(rank, step, op) + duration;
  }

  // From one launch or end of a communication of the rank to the next, at full or at reduced speed.
  std::int64_t stretched_end(int rank, std::int64_t start, std::int64_t duration) const {
    const std::vector<Node>& nodes = before_[static_cast<std::size_t>(rank)];
    std::vector<Node> resident;
    std::vector<std::int64_t> changes;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const OpSpec& s = spec(rank, i % body(rank).ops.size());
      if (s.stream == 0 || !is_communication(s.kind)) continue;
      resident.push_back(nodes[i]);
      changes.push_back(nodes[i].launch);
      changes.push_back(nodes[i].end);
    }
    std::sort(changes.begin(), changes.end());
    auto left = static_cast<double>(duration);
    std::int64_t now = start;
    while (true) {
      const bool slow =
          std::any_of(resident.begin(), resident.end(), [&](const Node& n) { return n.launch <= now && now < n.end; });
      const double pace = slow ? in_.costs.slowdown : 1;
      const auto change = std::upper_bound(changes.begin(), changes.end(), now);
      // Ends are whole picoseconds: an end that rounds to the change comes before it, since the change may
      // be the launch of what waited for this end.
      const std::int64_t end = now + std::llround(left * pace);
      if (change == changes.end() || end <= *change) return end;
      left -= static_cast<double>(*change - now) / pace;
      now = *change;
    }
  }

  const PlayableProgram& in_;
  std::vector<std::vector<Node>> nodes_;   // by rank: both steps
  std::vector<std::vector<Node>> before_;  // of the pass before; empty in the first
};

}  // namespace meshweave::testing
