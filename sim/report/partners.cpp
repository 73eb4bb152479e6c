#include "sim/report/partners.h"

namespace meshweave {
namespace {

std::uint64_t message_key(std::uint64_t tag, bool send) { return 2 * tag + (send ? 1 : 0); }

}  // namespace

Partners::Partners(const Program& program) : program_(program) {
  for (const Body& body : program.bodies) {
    OfBody of;
    of.call.resize(body.ops.size());
    of.calls.resize(program.groups.size());
    for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
      const OpSpec& spec = program.spec(body.ops[i]);
      if (is_collective(spec.kind)) {
        of.call[i] = static_cast<std::uint32_t>(of.calls[spec.group].size());
        of.calls[spec.group].push_back(i);
      }
      for (const Message& m : program.messages(body, body.ops[i])) of.messages[message_key(m.tag, m.send)] = i;
    }
    bodies_.push_back(std::move(of));
  }
}

std::uint32_t Partners::op_at_peer(int rank, std::uint32_t op, int peer) const {
  const std::size_t own = program_.body_of_rank[static_cast<std::size_t>(rank)];
  const std::size_t other = program_.body_of_rank[static_cast<std::size_t>(peer)];
  const Body& body = program_.bodies[own];
  const OpSpec& spec = program_.spec(body.ops[op]);
  if (is_collective(spec.kind)) {
    const std::vector<std::uint32_t>& calls = bodies_[other].calls[spec.group];
    const std::uint32_t call = bodies_[own].call[op];
    return call < calls.size() ? calls[call] : no_op;
  }
  for (const Message& m : program_.messages(body, body.ops[op])) {
    if (program_.peer_rank(rank, m.peer) == peer) return op_of_message(other, m.tag, !m.send);
  }
  return no_op;
}

std::uint32_t Partners::op_of_message(std::size_t body, std::uint64_t tag, bool send) const {
  const auto found = bodies_[body].messages.find(message_key(tag, send));
  return found == bodies_[body].messages.end() ? no_op : found->second;
}

}  // namespace meshweave
