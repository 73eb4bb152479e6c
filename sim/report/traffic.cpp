#include "sim/report/traffic.h"

#include <algorithm>

#include "sim/base/error.h"
#include "sim/program/work.h"

namespace meshweave {
namespace {

std::size_t index_of(OpKind kind) {
  const auto found = std::find(all_transfer_kinds.begin(), all_transfer_kinds.end(), kind);
  ensure(found != all_transfer_kinds.end(), "an op without transfer");
  return static_cast<std::size_t>(found - all_transfer_kinds.begin());
}

double members(const Group& group) {
  double count = 1;
  for (const AxisPattern& pattern : group.patterns) count *= pattern.count;
  return count;
}

double received_messages(const Program& program, const Body& body, const Op& op) {
  double bytes = 0;
  for (const Message& message : program.messages(body, op)) {
    if (!message.send) bytes += static_cast<double>(program.tensor_spec(body, message.tensor).bytes());
  }
  return bytes;
}

double received(const Program& program, const Body& body, const Op& op) {
  const OpSpec& spec = program.spec(op);
  if (spec.kind == OpKind::point_to_point) return received_messages(program, body, op);
  const double d = members(program.groups[spec.group]);
  const double in = static_cast<double>(input_bytes(program, spec));
  const double out = static_cast<double>(output_bytes(program, spec));
  switch (spec.kind) {
    case OpKind::all_gather: return out * (d - 1) / d;
    case OpKind::all_reduce: return 2 * in * (d - 1) / d;
    case OpKind::reduce_scatter:
    case OpKind::all_to_all:
    case OpKind::broadcast:
    case OpKind::reduce: return in * (d - 1) / d;
    default: bug("no rule for the bytes of " + std::string(name_of(spec.kind)));
  }
}

}  // namespace

Purpose purpose_of(const Stream& stream) {
  ensure(stream.purpose != Purpose::none, "a communication on the stream " + stream.name + ", which is for none");
  return stream.purpose;
}

double Traffic::of(OpKind kind) const {
  double sum = 0;
  for (const auto& by_kind : bytes) sum += by_kind[index_of(kind)];
  return sum;
}

double Traffic::of(Purpose purpose) const {
  double sum = 0;
  for (const double each : bytes[static_cast<std::size_t>(purpose)]) sum += each;
  return sum;
}

double Traffic::total() const {
  double sum = 0;
  for (const Purpose purpose : all_purposes) sum += of(purpose);
  return sum;
}

Traffic count_traffic(const Program& program, const std::function<bool(const Op&, const OpSpec&)>& counts) {
  std::vector<double> ranks_of_body(program.bodies.size());
  for (const std::uint32_t body : program.body_of_rank) ++ranks_of_body[body];
  Traffic traffic;
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
    for (const Op& op : program.bodies[b].ops) {
      const OpSpec& spec = program.spec(op);
      if (!is_communication(spec.kind) || (counts && !counts(op, spec))) continue;
      const auto purpose = static_cast<std::size_t>(purpose_of(program.streams[spec.stream]));
      traffic.bytes[purpose][index_of(spec.kind)] += ranks_of_body[b] * received(program, program.bodies[b], op);
    }
  }
  for (auto& by_kind : traffic.bytes) {
    for (double& each : by_kind) each /= program.ranks();
  }
  return traffic;
}

}  // namespace meshweave
