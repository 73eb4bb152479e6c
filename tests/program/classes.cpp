#include "sim/program/classes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "sim/program/builder.h"
#include "tests/program/random_body.h"

namespace meshweave {
namespace {

std::uint64_t same_placement(std::span<const int>) { return 0; }

void collective(ProgramBuilder& builder, Body& body, std::uint16_t group) {
  OpSpec spec;
  spec.kind = OpKind::all_reduce;
  spec.group = group;
  builder.append(body, spec, {}, {}, {});
}

void send_to(ProgramBuilder& builder, Body& body, std::uint8_t peer) {
  OpSpec spec;
  spec.kind = OpKind::point_to_point;
  const Message message{.send = true, .peer = peer};
  builder.append(body, spec, {}, {}, {}, {&message, 1});
}

// TP2·DP2·PP4 on 16 ranks, one body per stage: tensor-parallel and data-parallel collectives, and messages to
// both neighbours inside the pipeline.
Program pipeline() {
  ProgramBuilder builder;
  builder.program().grids.emplace_back(Degrees{.tp = 2, .dp = 2, .pp = 4}, "tp-dp-pp", 0);
  const std::uint16_t tp = builder.group({"tp", 0, {{Axis::tp, 1, 2}}});
  const std::uint16_t dp = builder.group({"dp", 0, {{Axis::dp, 1, 2}}});
  const std::uint8_t next = builder.peer(peer_along(builder.program().grids[0], Axis::pp, 1));
  const std::uint8_t previous = builder.peer(peer_along(builder.program().grids[0], Axis::pp, -1));
  for (int stage = 0; stage < 4; ++stage) {
    Body& body = builder.add_body("stage " + std::to_string(stage));
    collective(builder, body, tp);
    if (stage < 3) send_to(builder, body, next);
    if (stage > 0) send_to(builder, body, previous);
    collective(builder, body, dp);
  }
  for (std::uint32_t rank = 0; rank < 16; ++rank) builder.program().body_of_rank.push_back(rank / 4);
  return builder.take();
}

TEST_CASE("ranks that differ only in coordinates fold into one class per stage") {
  const RankClasses classes = fold_ranks(pipeline(), {}, same_placement);
  REQUIRE(classes.count() == 4);
  CHECK(classes.representative == std::vector<int>{0, 4, 8, 12});
  CHECK(classes.size == std::vector<int>{4, 4, 4, 4});
  CHECK(classes.class_of[7] == 1);
}

TEST_CASE("one slow rank splits what it reaches through groups and peers") {
  // Rank 5 (stage 1, tp 1, dp 0) is slow. In its stage the others are told apart by what they share with it:
  // rank 4 its tensor-parallel group, rank 7 its data-parallel group, rank 6 neither. Its pipeline neighbours
  // carry this on, so that every rank is a class of its own.
  std::vector<std::uint64_t> slow(16, 0);
  slow[5] = 1;
  CHECK(fold_ranks(pipeline(), slow, same_placement).count() == 16);
}

TEST_CASE("a placement that differs splits the ranks of the groups that it touches") {
  // Tensor-parallel groups {0,1}, {2,3}, …: the one of ranks 0 and 1 spans two nodes. Ranks 0 and 1 stay
  // equal, 2 and 3 too, and each stage sees the difference through its peers and groups: two classes per
  // stage.
  const auto placement = [](std::span<const int> ranks) -> std::uint64_t { return ranks[0] == 0 && ranks[1] == 1; };
  const RankClasses classes = fold_ranks(pipeline(), {}, placement);
  CHECK(classes.count() == 8);
  CHECK(classes.class_of[0] == classes.class_of[1]);
  CHECK(classes.class_of[2] == classes.class_of[3]);
  CHECK(classes.class_of[0] != classes.class_of[2]);
}

TEST_CASE("groups that no op uses do not tell ranks apart") {
  ProgramBuilder builder;
  builder.program().grids.emplace_back(Degrees{.tp = 4}, "tp", 0);
  builder.group({"tp", 0, {{Axis::tp, 1, 2}}});
  builder.add_body("idle");
  builder.program().body_of_rank.assign(4, 0);
  const RankClasses classes = fold_ranks(builder.program(), {0, 1, 0, 0}, same_placement);
  CHECK(classes.class_of == std::vector<std::uint32_t>{0, 1, 0, 0});
}

TEST_CASE("without folding every rank is its own class") {
  const RankClasses classes = all_ranks(pipeline());
  CHECK(classes.count() == 16);
  CHECK(classes.class_of[9] == 9);
  CHECK(classes.representative[9] == 9);
}

// The coarsest stable partition by explicit comparison of keys, with groups and peers from the process grid.
std::vector<std::uint32_t> naive_classes(const Program& program, const std::vector<std::uint64_t>& initial,
                                         const std::function<std::uint64_t(std::span<const int>)>& placement) {
  using Key = std::vector<std::uint64_t>;
  const auto ranks = static_cast<std::size_t>(program.ranks());
  const auto number = [&](const std::vector<Key>& keys) {
    std::vector<std::uint32_t> classes(ranks);
    std::map<Key, std::uint32_t> seen;
    for (std::size_t r = 0; r < ranks; ++r) {
      classes[r] = seen.try_emplace(keys[r], static_cast<std::uint32_t>(seen.size())).first->second;
    }
    return classes;
  };
  const auto each_partner = [&](std::size_t rank, auto on_group, auto on_peer) {
    const Body& body = program.bodies[program.body_of_rank[rank]];
    std::set<std::uint16_t> groups;
    std::set<std::uint8_t> peers;
    for (const Op& op : body.ops) {
      if (program.spec(op).group != no_group) groups.insert(program.spec(op).group);
      for (const Message& m : program.messages(body, op)) peers.insert(m.peer);
    }
    for (const std::uint16_t g : groups) {
      on_group(program.grids[0].group(static_cast<int>(rank), program.groups[g].patterns));
    }
    for (const std::uint8_t p : peers) on_peer(program.peer_rank(static_cast<int>(rank), p));
  };

  std::vector<Key> keys(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    keys[r] = {program.body_of_rank[r], initial[r]};
    each_partner(
        r, [&](const std::vector<int>& members) { keys[r].push_back(placement(members)); },
        [&](int peer) {
          keys[r].push_back(placement(std::vector<int>{static_cast<int>(r), peer}));
        });
  }
  std::vector<std::uint32_t> classes = number(keys);
  while (true) {
    for (std::size_t r = 0; r < ranks; ++r) {
      keys[r] = {classes[r]};
      each_partner(
          r,
          [&](const std::vector<int>& members) {
            Key of_members;
            for (const int m : members) of_members.push_back(classes[static_cast<std::size_t>(m)]);
            std::sort(of_members.begin(), of_members.end());
            keys[r].insert(keys[r].end(), of_members.begin(), of_members.end());
          },
          [&](int peer) { keys[r].push_back(classes[static_cast<std::size_t>(peer)]); });
    }
    const std::vector<std::uint32_t> next = number(keys);
    if (next == classes) return classes;
    classes = next;
  }
}

TEST_CASE("folding equals the naive refinement on random programs") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const int tp = 1 << test::uniform(random, 0, 2), dp = 1 << test::uniform(random, 0, 2);
    const int pp = test::uniform(random, 1, 4);
    ProgramBuilder builder;
    builder.program().grids.emplace_back(Degrees{.tp = tp, .dp = dp, .pp = pp}, "tp-dp-pp", 0);
    const std::uint16_t groups[] = {builder.group({"tp", 0, {{Axis::tp, 1, tp}}}),
                                    builder.group({"dp", 0, {{Axis::dp, 1, dp}}})};
    const std::uint8_t peers[] = {builder.peer(peer_along(builder.program().grids[0], Axis::pp, 1)),
                                  builder.peer(peer_along(builder.program().grids[0], Axis::pp, -1))};
    for (int stage = 0; stage < pp; ++stage) {
      Body& body = builder.add_body("stage");
      for (const std::uint16_t g : groups) {
        if (test::uniform(random, 0, 1) != 0) collective(builder, body, g);
      }
      for (const std::uint8_t p : peers) {
        if (test::uniform(random, 0, 1) != 0) send_to(builder, body, p);
      }
    }
    const int ranks = tp * dp * pp;
    const bool one_body = test::uniform(random, 0, 1) != 0;
    std::vector<std::uint64_t> initial;
    for (int r = 0; r < ranks; ++r) {
      builder.program().body_of_rank.push_back(one_body ? 0u : static_cast<std::uint32_t>(r / (tp * dp)));
      initial.push_back(test::uniform(random, 0, 9) == 0 ? 1 : 0);
    }
    const int node = 1 << test::uniform(random, 0, 4);
    const auto placement = [node](std::span<const int> members) {
      std::set<int> nodes;
      for (const int m : members) nodes.insert(m / node);
      return static_cast<std::uint64_t>(nodes.size());
    };
    const RankClasses classes = fold_ranks(builder.program(), initial, placement);
    REQUIRE(classes.class_of == naive_classes(builder.program(), initial, placement));
    for (std::uint32_t c = 0; c < classes.size.size(); ++c) {
      REQUIRE(classes.size[c] == std::count(classes.class_of.begin(), classes.class_of.end(), c));
      REQUIRE(classes.class_of[static_cast<std::size_t>(classes.representative[c])] == c);
    }
  }
}

}  // namespace
}  // namespace meshweave
