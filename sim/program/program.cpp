#include "sim/program/program.h"

#include <fmt/format.h>

#include <utility>

namespace meshweave {

std::string_view name_of(Category category) {
  constexpr std::string_view names[] = {"parameters", "main_gradients", "optimizer_state", "activations",
                                        "boundary",   "communication",  "workspace"};
  return names[static_cast<std::size_t>(category)];
}

std::string_view name_of(Phase phase) {
  constexpr std::string_view names[] = {"forward",         "backward-data", "backward-weight", "recompute",
                                        "gradient-reduce", "optimizer",     "parameter-gather"};
  return names[static_cast<std::size_t>(phase)];
}

std::string_view name_of(StreamKind kind) {
  constexpr std::string_view names[] = {"compute", "tensor", "pipeline", "data", "boundary", "copy-out", "copy-in"};
  return names[static_cast<std::size_t>(kind)];
}

Peer peer_along(const ProcessGrid& grid, Axis axis, int delta) {
  Peer peer{fmt::format("{}{:+}", name_of(axis), delta), mask_of(axis), {}};
  peer.rank_of.assign(static_cast<std::size_t>(grid.offset()), no_rank);
  const int degree = grid.degree(axis);
  for (int rank = grid.offset(); rank < grid.offset() + grid.size(); ++rank) {
    const int own = grid.coordinate(rank, axis);
    const int other = ((own + delta) % degree + degree) % degree;
    peer.rank_of.push_back(rank + (other - own) * grid.stride(axis));
  }
  return peer;
}

std::string_view name_of(Purpose purpose) {
  constexpr std::string_view names[] = {"tensor", "context", "weights", "pipeline", "data", "none"};
  return names[static_cast<std::size_t>(purpose)];
}

std::pair<std::int64_t, std::int64_t> Program::byte_range(const Body& body, std::uint32_t tensor) const {
  const Tensor& t = body.tensors[tensor];
  const TensorSpec& spec = tensor_specs[t.spec];
  const std::int64_t parts = t.shard == no_shard ? 1 : shards[t.shard].parts();
  return {t.offset, t.offset + spec.bytes() * parts};
}

std::int64_t wire_bytes(const Program& program, const Body& body, const Op& op, const Message& message) {
  std::int64_t bytes = 0;
  bool first = true;
  for (const Message& m : program.messages(body, op)) {
    if (m.send != message.send || m.peer != message.peer) continue;
    if (first && &m != &message) return 0;
    first = false;
    bytes += program.tensor_spec(body, m.tensor).bytes();
  }
  return bytes;
}

}  // namespace meshweave
