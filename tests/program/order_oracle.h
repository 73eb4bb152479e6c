// The order of a body's ops over two steps, by the definition and in quadratic time: no code shared with
// sim/program/waits.cpp. Event e is op e % ops of step e / ops.
#pragma once

#include <vector>

#include "sim/program/waits.h"

namespace meshweave::test {

using Relation = std::vector<std::vector<bool>>;  // [later event][earlier event]

class OrderOracle {
 public:
  OrderOracle(const Program& program, const Body& body)
      : program_(program), body_(body), ops_(body.ops.size()), direct_(relation()), before_(relation()) {
    for (std::size_t later = 0; later < 2 * ops_; ++later) {
      for (std::size_t earlier = 0; earlier < later; ++earlier) direct_[later][earlier] = depends(later, earlier);
    }
    before_ = closed(direct_);
  }

  std::size_t stream(std::size_t event) const { return program_.spec(body_.ops[event % ops_]).stream; }
  // Whether the definition asks `later` to wait for the end of `earlier`, directly or through others.
  bool ordered(std::size_t later, std::size_t earlier) const { return before_[later][earlier]; }

  // The waits of `op` in the second step: the latest direct one per other stream, unless another direct one
  // has waited for it.
  std::vector<std::size_t> waits_of(std::size_t op) const {
    const std::size_t event = ops_ + op;
    std::vector<std::size_t> kept;
    for (std::size_t s = 0; s < program_.streams.size(); ++s) {
      if (s == stream(event)) continue;
      for (std::size_t earlier = event; earlier-- > 0;) {
        if (stream(earlier) != s || !direct_[event][earlier]) continue;
        if (!implied(event, earlier)) kept.push_back(earlier);
        break;
      }
    }
    return kept;
  }

  // Whether stream order and `waits` alone bring about every order of the definition.
  bool enforced_by(const Waits& waits) const {
    Relation edges = relation();
    for (std::size_t later = 0; later < 2 * ops_; ++later) {
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        edges[later][earlier] = stream(later) == stream(earlier);
      }
      for (const Wait& w : waits.of(later % ops_)) {
        if (!w.previous_step) {
          edges[later][later / ops_ * ops_ + w.op] = true;
        } else if (later >= ops_) {
          edges[later][w.op] = true;
        }
      }
    }
    return closed(edges) == before_;
  }

 private:
  Relation relation() const { return Relation(2 * ops_, std::vector<bool>(2 * ops_, false)); }

  static Relation closed(const Relation& direct) {
    Relation all = direct;
    for (std::size_t later = 0; later < all.size(); ++later) {
      for (std::size_t middle = 0; middle < later; ++middle) {
        if (!direct[later][middle]) continue;
        for (std::size_t earlier = 0; earlier < middle; ++earlier) {
          if (all[middle][earlier]) all[later][earlier] = true;
        }
      }
    }
    return all;
  }

  bool implied(std::size_t event, std::size_t earlier) const {
    for (std::size_t other = earlier + 1; other < event; ++other) {
      if (direct_[event][other] && before_[other][earlier]) return true;
    }
    return false;
  }

  bool depends(std::size_t later, std::size_t earlier) const {
    if (stream(later) == stream(earlier)) return true;
    if (stream(later) != 0 && stream(earlier) == 0) return true;
    return conflict(later, earlier);
  }

  bool conflict(std::size_t later, std::size_t earlier) const {
    const Op& a = body_.ops[later % ops_];
    const Op& b = body_.ops[earlier % ops_];
    const bool same_step = later / ops_ == earlier / ops_;
    const auto any = [&](std::span<const std::uint32_t> of_a, std::span<const std::uint32_t> of_b) {
      for (const std::uint32_t x : of_a) {
        for (const std::uint32_t y : of_b) {
          if (share_bytes(x, y) && (same_step || body_.storages[body_.tensors[x].storage].persistent)) return true;
        }
      }
      return false;
    };
    return any(program_.writes(body_, a), program_.writes(body_, b)) ||
           any(program_.writes(body_, a), program_.reads(body_, b)) ||
           any(program_.reads(body_, a), program_.writes(body_, b));
  }

  bool share_bytes(std::uint32_t x, std::uint32_t y) const {
    if (body_.tensors[x].storage != body_.tensors[y].storage) return false;
    return begin(x) < end(y) && begin(y) < end(x);
  }
  std::int64_t begin(std::uint32_t t) const { return body_.tensors[t].offset; }
  std::int64_t end(std::uint32_t t) const {
    std::int64_t places = 1;
    if (body_.tensors[t].shard != no_shard)
      for (const AxisPattern& p : program_.shards[body_.tensors[t].shard].patterns) places *= p.count;
    return begin(t) + places * program_.tensor_spec(body_, t).bytes();
  }

  const Program& program_;
  const Body& body_;
  const std::size_t ops_;
  Relation direct_;
  Relation before_;
};

}  // namespace meshweave::test
