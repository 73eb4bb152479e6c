#include "sim/program/hoist.h"

#include <algorithm>

namespace meshweave {

namespace {

class Hoister {
 public:
  Hoister(const Program& program, const Body& body, int depth) : program_(program), body_(body), depth_(depth) {}

  std::vector<Op> reorder() {
    order_.reserve(body_.ops.size());
    for (const Op& op : body_.ops) {
      const bool moves = stream_kind(op) == StreamKind::tensor;
      order_.insert(order_.end() - static_cast<std::ptrdiff_t>(moves ? distance(op) : 0), op);
    }
    return std::move(order_);
  }

 private:
  StreamKind stream_kind(const Op& op) const { return program_.streams[program_.spec(op).stream].kind; }

  // How many of the latest ops `op` passes.
  std::size_t distance(const Op& op) const {
    std::size_t passed = 0;
    std::size_t useful = 0;  // passed up to the last compute op
    for (int communications = 0; passed < order_.size(); ++passed) {
      const Op& before = order_[order_.size() - 1 - passed];
      const StreamKind kind = stream_kind(before);
      if (program_.spec(before).sync || conflict(op, before)) break;
      if (kind == StreamKind::tensor) {
        if (++communications > depth_) break;
      } else if (kind == StreamKind::compute) {
        useful = passed + 1;
      } else {
        break;
      }
    }
    return useful;
  }

  bool conflict(const Op& a, const Op& b) const {
    return touch(program_.writes(body_, a), program_.writes(body_, b)) ||
           touch(program_.writes(body_, a), program_.reads(body_, b)) ||
           touch(program_.reads(body_, a), program_.writes(body_, b));
  }

  bool touch(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) const {
    for (const std::uint32_t s : a) {
      for (const std::uint32_t t : b) {
        if (body_.tensors[s].storage != body_.tensors[t].storage) continue;
        const auto [first, last] = program_.byte_range(body_, s);
        const auto [other_first, other_last] = program_.byte_range(body_, t);
        if (first < other_last && other_first < last) return true;
      }
    }
    return false;
  }

  const Program& program_;
  const Body& body_;
  const int depth_;
  std::vector<Op> order_;
};

}  // namespace

void hoist_tensor_communication(const Program& program, Body& body, int depth) {
  body.ops = Hoister(program, body, depth).reorder();
}

}  // namespace meshweave
