#include "sim/program/op_facts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

namespace meshweave {
namespace {

TEST_CASE("every kind of op has a name of its own, by which traces and reports call it") {
  std::set<std::string_view> names;
  for (const OpFacts& facts : op_facts) {
    CHECK(names.insert(facts.name).second);
    CHECK(name_of(facts.kind) == facts.name);
    CHECK(std::all_of(facts.name.begin(), facts.name.end(), [](char c) { return c == '-' || (c >= 'a' && c <= 'z'); }));
  }
  CHECK(name_of(OpKind::cross_entropy_sum) == "cross-entropy-sum");
}

TEST_CASE("the fewest operands are no more than the most") {
  for (const OpFacts& facts : op_facts) {
    CAPTURE(facts.name);
    CHECK(facts.reads.fewest <= facts.reads.most);
    CHECK(facts.writes.fewest <= facts.writes.most);
  }
}

TEST_CASE("an arity bounds the number of operands at both ends, or only below") {
  CHECK_FALSE(Arity{2, 3}.fits(1));
  CHECK(Arity{2, 3}.fits(2));
  CHECK(Arity{2, 3}.fits(3));
  CHECK_FALSE(Arity{2, 3}.fits(4));
  CHECK_FALSE(Arity{2, Arity::any}.fits(1));
  CHECK(Arity{2, Arity::any}.fits(1000));
}

TEST_CASE("collectives and batches of messages are communications, kernels are not") {
  CHECK(is_collective(OpKind::broadcast));
  CHECK(is_communication(OpKind::broadcast));
  CHECK_FALSE(is_collective(OpKind::point_to_point));
  CHECK(is_communication(OpKind::point_to_point));
  CHECK_FALSE(is_communication(OpKind::adam));
}

}  // namespace
}  // namespace meshweave
