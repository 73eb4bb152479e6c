#include "sim/program/builder.h"

#include <algorithm>
#include <limits>

#include "sim/base/error.h"
#include "sim/base/narrow.h"
#include "sim/base/random.h"

namespace meshweave {

namespace {

std::size_t combine(std::size_t seed, std::uint64_t value) { return mix_bits(seed ^ value); }

std::size_t hash_of(const TensorSpec& spec) {
  std::size_t h = stream_key(spec.name);
  for (const Dimension& d : spec.dimensions) {
    h = combine(h, static_cast<std::uint64_t>(d.size) << 8 | d.sharded_over);
    h = combine(
        h, static_cast<std::uint64_t>(d.held.of) << 32 | static_cast<std::uint64_t>(d.held.index) << 16 | d.zigzag);
  }
  return combine(h, static_cast<std::uint64_t>(spec.runs) << 24 | static_cast<std::uint64_t>(spec.dtype) << 16 |
                        static_cast<std::uint64_t>(spec.partial) << 8 | spec.grid);
}

std::size_t hash_of(const OpSpec& spec) {
  std::size_t h = stream_key(spec.label);
  h = combine(h, static_cast<std::uint64_t>(spec.kind) << 24 | static_cast<std::uint64_t>(spec.phase) << 16 |
                     static_cast<std::uint64_t>(spec.stream) << 8 | spec.module);
  h = combine(h, spec.group);
  for (std::uint32_t t : spec.reads) h = combine(h, t);
  h = combine(h, spec.reads.size());
  for (std::uint32_t t : spec.writes) h = combine(h, t);
  return h;
}

template <typename T>
std::uint32_t intern(std::vector<T>& table, std::unordered_multimap<std::size_t, std::uint32_t>& index,
                     const T& value) {
  const std::size_t h = hash_of(value);
  for (auto [it, end] = index.equal_range(h); it != end; ++it) {
    if (table[it->second] == value) return it->second;
  }
  const auto id = static_cast<std::uint32_t>(table.size());
  table.push_back(value);
  index.emplace(h, id);
  return id;
}

// The purpose of a kind's own stream.
Purpose purpose_of(StreamKind kind) {
  switch (kind) {
    case StreamKind::tensor: return Purpose::tensor;
    case StreamKind::pipeline: return Purpose::pipeline;
    case StreamKind::data: return Purpose::data;
    case StreamKind::compute:
    case StreamKind::boundary:
    case StreamKind::copy_out:
    case StreamKind::copy_in: return Purpose::none;
  }
  bug("unknown stream kind");
}

StreamKind kind_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::tensor:
    case Purpose::context:
    case Purpose::weights: return StreamKind::tensor;
    case Purpose::pipeline: return StreamKind::pipeline;
    case Purpose::data: return StreamKind::data;
    case Purpose::none: break;
  }
  bug("no stream without a purpose");
}

// The index of `value` in a short table of `name`, appended when missing. The largest index stands for none.
template <typename Index, typename T>
Index find_or_append(std::vector<T>& table, const T& value, std::string_view name) {
  const auto found = std::find(table.begin(), table.end(), value);
  const auto index = narrow<Index>(found - table.begin(), name);
  ensure(index != std::numeric_limits<Index>::max(), "too many " + std::string(name));
  if (found == table.end()) table.push_back(value);
  return index;
}

}  // namespace

std::uint8_t ProgramBuilder::stream(StreamKind kind) {
  return stream({std::string(name_of(kind)), kind, purpose_of(kind)});
}

std::uint8_t ProgramBuilder::stream(Purpose purpose) {
  return stream({std::string(name_of(purpose)), kind_of(purpose), purpose});
}

std::uint8_t ProgramBuilder::stream(const Stream& wanted) {
  std::vector<Stream>& streams = program_.streams;
  if (streams.empty()) streams.push_back({std::string(name_of(StreamKind::compute)), StreamKind::compute});
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[i].kind == wanted.kind && streams[i].purpose == wanted.purpose)
      return narrow<std::uint8_t>(i, "streams");
  }
  streams.push_back(wanted);
  return narrow<std::uint8_t>(streams.size() - 1, "streams");
}

std::uint16_t ProgramBuilder::grid(const ProcessGrid& grid) {
  return find_or_append<std::uint16_t>(program_.grids, grid, "grids");
}

std::uint16_t ProgramBuilder::group(const Group& group) {
  return find_or_append<std::uint16_t>(program_.groups, group, "groups");
}

std::uint8_t ProgramBuilder::peer(const Peer& peer) {
  return find_or_append<std::uint8_t>(program_.peers, peer, "peers");
}

std::uint16_t ProgramBuilder::shard(const ShardPattern& shard) {
  return find_or_append<std::uint16_t>(program_.shards, shard, "shard patterns");
}

std::uint32_t ProgramBuilder::tensor_spec(const TensorSpec& spec) {
  return intern(program_.tensor_specs, tensor_index_, spec);
}

std::uint32_t ProgramBuilder::op_spec(const OpSpec& spec) { return intern(program_.op_specs, op_index_, spec); }

Body& ProgramBuilder::add_body(std::string name) {
  stream(StreamKind::compute);
  Body& body = program_.bodies.emplace_back();
  body.name = std::move(name);
  return body;
}

std::uint32_t ProgramBuilder::transient(Body& body, std::uint32_t spec, Category category, Place where) {
  return view(body, spec, storage(body, program_.tensor_specs[spec].bytes(), category, false), 0, where);
}

std::uint32_t ProgramBuilder::storage(Body& body, std::int64_t bytes, Category category, bool persistent) {
  body.storages.push_back({bytes, category, persistent});
  return static_cast<std::uint32_t>(body.storages.size() - 1);
}

std::uint32_t ProgramBuilder::view(Body& body, std::uint32_t spec, std::uint32_t storage, std::int64_t offset,
                                   Place where, std::uint16_t shard) {
  body.tensors.push_back({spec, storage, offset, narrow<std::int16_t>(where.layer, "layer"),
                          narrow<std::int16_t>(where.micro_batch, "micro-batch"), shard});
  return static_cast<std::uint32_t>(body.tensors.size() - 1);
}

Op& ProgramBuilder::append(Body& body, std::uint32_t spec, std::span<const std::uint32_t> reads,
                           std::span<const std::uint32_t> writes, Place where, std::span<const Message> messages) {
  const OpSpec& s = program_.op_specs[spec];
  ensure(reads.size() == s.reads.size() && writes.size() == s.writes.size(), "operands do not fit the op " + s.label);
  Op op;
  op.spec = spec;
  op.first_operand = static_cast<std::uint32_t>(body.operands.size());
  op.first_message = static_cast<std::uint32_t>(body.messages.size());
  op.message_count = narrow<std::uint16_t>(messages.size(), "messages of an op");
  op.layer = narrow<std::int16_t>(where.layer, "layer");
  op.micro_batch = narrow<std::int16_t>(where.micro_batch, "micro-batch");
  op.chunk = narrow<std::int16_t>(where.chunk, "virtual stage");
  body.operands.insert(body.operands.end(), reads.begin(), reads.end());
  body.operands.insert(body.operands.end(), writes.begin(), writes.end());
  body.messages.insert(body.messages.end(), messages.begin(), messages.end());
  return body.ops.emplace_back(op);
}

Op& ProgramBuilder::append(Body& body, OpSpec spec, std::span<const std::uint32_t> reads,
                           std::span<const std::uint32_t> writes, Place where, std::span<const Message> messages) {
  for (std::uint32_t t : reads) spec.reads.push_back(body.tensors[t].spec);
  for (std::uint32_t t : writes) spec.writes.push_back(body.tensors[t].spec);
  return append(body, op_spec(spec), reads, writes, where, messages);
}

}  // namespace meshweave
