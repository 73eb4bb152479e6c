#include "sim/program/classes.h"

#include <numeric>
#include <unordered_map>

#include "sim/base/random.h"
#include "sim/program/communicators.h"

namespace meshweave {
namespace {

// The inner mixing keeps a value that is itself a mixed colour from cancelling the hash.
std::uint64_t combine(std::uint64_t hash, std::uint64_t value) { return mix_bits(mix_bits(hash) ^ value); }

// The groups and peers that the ops of a body use, each once, ascending.
struct Partners {
  std::vector<std::uint16_t> groups;
  std::vector<std::uint8_t> peers;
};

template <typename Index>
std::vector<Index> marked(const std::vector<bool>& marks) {
  std::vector<Index> indices;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i]) indices.push_back(static_cast<Index>(i));
  }
  return indices;
}

Partners partners_of(const Program& program, const Body& body) {
  std::vector<bool> groups(program.groups.size(), false);
  std::vector<bool> peers(program.peers.size(), false);
  for (const Op& op : body.ops) {
    const std::uint16_t group = program.spec(op).group;
    if (group != no_group) groups[group] = true;
    for (const Message& m : program.messages(body, op)) peers[m.peer] = true;
  }
  return {marked<std::uint16_t>(groups), marked<std::uint8_t>(peers)};
}

// Colour refinement over ranks. A colour is a 64-bit hash, renumbered densely after each round.
class Refinement {
 public:
  explicit Refinement(const Program& program)
      : program_(program), communicators_(make_communicators(program)), colour_(program.body_of_rank.size(), 0) {
    for (const Body& body : program.bodies) partners_.push_back(partners_of(program, body));
    peers_of_rank_.resize(program.peers.size());
    for (const std::uint8_t peer : marked<std::uint8_t>(used_peers())) peers_of_rank_[peer] = resolve(peer);
  }

  void start(const std::vector<std::uint64_t>& initial,
             const std::function<std::uint64_t(std::span<const int>)>& placement) {
    const std::vector<std::vector<std::uint64_t>> signatures = group_signatures(placement);
    recolour([&](std::size_t rank) {
      std::uint64_t hash = mix_bits(program_.body_of_rank[rank]);
      if (!initial.empty()) hash = combine(hash, initial[rank]);
      for (const std::uint16_t group : partners(rank).groups) {
        hash = combine(hash, of_instance(signatures[group], group, rank));
      }
      for (const std::uint8_t peer : partners(rank).peers) {
        const int pair[] = {static_cast<int>(rank), static_cast<int>(peers_of_rank_[peer][rank])};
        hash = combine(hash, placement(pair));
      }
      return hash;
    });
  }

  // One round; whether it split a colour. Each rank sees its own colour, the multiset of colours in each of
  // its groups, and the colour of each of its peers.
  bool refine() {
    const std::uint32_t before = colours_;
    const std::vector<std::vector<std::uint64_t>> members = group_colours();
    const std::vector<std::uint32_t> old = colour_;
    recolour([&](std::size_t rank) {
      std::uint64_t hash = mix_bits(old[rank]);
      for (const std::uint16_t group : partners(rank).groups) {
        hash = combine(hash, of_instance(members[group], group, rank));
      }
      for (const std::uint8_t peer : partners(rank).peers) {
        hash = combine(hash, old[peers_of_rank_[peer][rank]]);
      }
      return hash;
    });
    return colours_ != before;
  }

  RankClasses classes() const {
    RankClasses result;
    result.class_of = colour_;
    result.size.assign(colours_, 0);
    for (std::size_t rank = 0; rank < colour_.size(); ++rank) {
      if (colour_[rank] == result.representative.size()) result.representative.push_back(static_cast<int>(rank));
      ++result.size[colour_[rank]];
    }
    return result;
  }

 private:
  const Partners& partners(std::size_t rank) const { return partners_[program_.body_of_rank[rank]]; }

  std::vector<bool> used_peers() const {
    std::vector<bool> used(program_.peers.size(), false);
    for (const Partners& p : partners_) {
      for (const std::uint8_t peer : p.peers) used[peer] = true;
    }
    return used;
  }

  std::vector<bool> used_groups() const {
    std::vector<bool> used(program_.groups.size(), false);
    for (const Partners& p : partners_) {
      for (const std::uint16_t group : p.groups) used[group] = true;
    }
    return used;
  }

  std::vector<std::uint32_t> resolve(std::uint8_t index) const {
    std::vector<std::uint32_t> peers(colour_.size(), 0);
    for (std::size_t rank = 0; rank < peers.size(); ++rank) {
      const int peer = program_.peer_rank(static_cast<int>(rank), index);
      if (peer != no_rank) peers[rank] = static_cast<std::uint32_t>(peer);
    }
    return peers;
  }

  // `of_members` of every instance of the groups in use, by group and instance.
  template <typename Function>
  std::vector<std::vector<std::uint64_t>> by_instance(Function of_members) const {
    std::vector<std::vector<std::uint64_t>> values(program_.groups.size());
    for (const std::uint16_t group : marked<std::uint16_t>(used_groups())) {
      const Communicators::Of& of = communicators_.by_group[group];
      values[group].reserve(of.instances());
      for (std::uint32_t i = 0; i < of.instances(); ++i) values[group].push_back(of_members(of.of(i)));
    }
    return values;
  }

  std::vector<std::vector<std::uint64_t>> group_signatures(
      const std::function<std::uint64_t(std::span<const int>)>& placement) const {
    return by_instance([&](std::span<const int> members) { return placement(members); });
  }

  std::vector<std::vector<std::uint64_t>> group_colours() const {
    return by_instance([&](std::span<const int> members) {
      std::uint64_t sum = 0;
      for (const int m : members) sum += mix_bits(colour_[static_cast<std::size_t>(m)]);
      return sum;
    });
  }

  // 0 for a rank outside the group.
  std::uint64_t of_instance(const std::vector<std::uint64_t>& values, std::uint16_t group, std::size_t rank) const {
    const std::uint32_t instance = communicators_.by_group[group].instance_of[rank];
    return instance == UINT32_MAX ? 0 : values[instance];
  }

  // Colours are numbered in the order of their smallest rank.
  template <typename Function>
  void recolour(Function hash_of_rank) {
    std::unordered_map<std::uint64_t, std::uint32_t> number;
    for (std::size_t rank = 0; rank < colour_.size(); ++rank) {
      const auto next = static_cast<std::uint32_t>(number.size());
      colour_[rank] = number.try_emplace(hash_of_rank(rank), next).first->second;
    }
    colours_ = static_cast<std::uint32_t>(number.size());
  }

  const Program& program_;
  const Communicators communicators_;
  std::vector<Partners> partners_;                         // by body
  std::vector<std::vector<std::uint32_t>> peers_of_rank_;  // by peer, empty where unused
  std::vector<std::uint32_t> colour_;                      // by rank
  std::uint32_t colours_ = 0;
};

}  // namespace

RankClasses fold_ranks(const Program& program, const std::vector<std::uint64_t>& initial,
                       const std::function<std::uint64_t(std::span<const int>)>& placement) {
  Refinement refinement(program);
  refinement.start(initial, placement);
  while (refinement.refine()) {
  }
  return refinement.classes();
}

RankClasses all_ranks(const Program& program) {
  const std::size_t ranks = program.body_of_rank.size();
  RankClasses result;
  result.class_of.resize(ranks);
  std::iota(result.class_of.begin(), result.class_of.end(), 0u);
  result.representative.resize(ranks);
  std::iota(result.representative.begin(), result.representative.end(), 0);
  result.size.assign(ranks, 1);
  return result;
}

}  // namespace meshweave
