#include "sim/program/hoist.h"

#include <algorithm>

namespace meshweave {

namespace {

class Hoister {
 public:
  Hoister(const Program& program, const Body& body, std::uint8_t stream, int depth)
      : program_(program), body_(body), stream_(stream), depth_(depth) {}

  std::vector<Op> reorder() {
    order_.reserve(body_.ops.size());
    for (const Op& op : body_.ops) {
      const bool moves = program_.spec(op).stream == stream_ && stream_kind(op) == StreamKind::tensor;
      order_.insert(order_.end() - static_cast<std::ptrdiff_t>(moves ? distance(op) : 0), op);
    }
    return std::move(order_);
  }

  std::vector<Op> reorder_visitors() {
    order_.reserve(body_.ops.size());
    for (const Op& op : body_.ops) {
      const OpSpec& spec = program_.spec(op);
      const bool moves = spec.stream == stream_ && is_collective(spec.kind);
      order_.insert(order_.end() - static_cast<std::ptrdiff_t>(moves ? visitor_distance(op) : 0), op);
    }
    return std::move(order_);
  }

 private:
  StreamKind stream_kind(const Op& op) const { return program_.streams[program_.spec(op).stream].kind; }

  static bool brings(OpKind kind) { return kind == OpKind::all_gather || kind == OpKind::broadcast; }

  std::size_t visitor_distance(const Op& op) const {
    // The visitor whose first use bounds the move.
    const Op* bound = nullptr;
    if (brings(program_.spec(op).kind)) {
      int before = 0;
      for (std::size_t i = order_.size(); i-- > 0 && !bound;) {
        const OpSpec& spec = program_.spec(order_[i]);
        if (spec.stream == stream_ && brings(spec.kind) && ++before == depth_) bound = &order_[i];
      }
    }
    std::size_t limit = order_.size();  // ops that may be passed
    if (bound) {
      const auto at = static_cast<std::size_t>(bound - order_.data());
      std::size_t use = at + 1;
      while (use < order_.size() && !touch(program_.reads(body_, order_[use]), program_.writes(body_, *bound))) ++use;
      limit = order_.size() - use;
    }
    std::size_t useful = 0;  // passed up to the last compute op
    for (std::size_t passed = 0; passed < limit; ++passed) {
      const Op& before = order_[order_.size() - 1 - passed];
      const StreamKind kind = stream_kind(before);
      if (program_.spec(before).sync || conflict(op, before)) break;
      if (kind == StreamKind::compute) {
        useful = passed + 1;
      } else if (kind != StreamKind::tensor) {
        break;
      }
    }
    return useful;
  }

  // How many of the latest ops `op` passes.
  std::size_t distance(const Op& op) const {
    std::size_t passed = 0;
    std::size_t useful = 0;  // passed up to the last compute op
    for (int communications = 0; passed < order_.size(); ++passed) {
      const Op& before = order_[order_.size() - 1 - passed];
      const StreamKind kind = stream_kind(before);
      if (program_.spec(before).sync || conflict(op, before)) break;
      if (kind == StreamKind::tensor) {
        if (program_.spec(before).stream == stream_ && ++communications > depth_) break;
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
  const std::uint8_t stream_;
  const int depth_;
  std::vector<Op> order_;
};

}  // namespace

void hoist_tensor_communication(const Program& program, Body& body, std::uint8_t stream, int depth) {
  body.ops = Hoister(program, body, stream, depth).reorder();
}

void hoist_visitors(const Program& program, Body& body, std::uint8_t stream, int depth) {
  body.ops = Hoister(program, body, stream, depth).reorder_visitors();
}

}  // namespace meshweave
