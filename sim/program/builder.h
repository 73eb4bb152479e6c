// Builds a program: interns specs, appends storages, tensors and ops to bodies.
//
// Example: a builder, one body, y = x·Wᵀ:
//   ProgramBuilder b;  auto& body = b.add_body("stage 0");
//   const auto x = b.transient(body, spec_x, Category::activations, layer, micro_batch); …
//   b.append(body, op_spec, {x, w}, {y}, where);
#pragma once

#include <unordered_map>

#include "sim/program/program.h"

namespace meshweave {

// Where an op or a tensor stands: layer, micro-batch and virtual stage, −1 where it has none.
struct Place {
  int layer = -1;
  int micro_batch = -1;
  int chunk = -1;
};

class ProgramBuilder {
 public:
  Program& program() { return program_; }
  const Program& program() const { return program_; }
  Program take() { return std::move(program_); }

  // The stream of that kind, or of that purpose, made on first use; compute is stream 0. A purpose that is not that of
  // its kind has a stream of its own.
  std::uint8_t stream(StreamKind kind);
  std::uint8_t stream(Purpose purpose);
  std::uint16_t grid(const ProcessGrid& grid);
  std::uint16_t group(const Group& group);
  std::uint8_t peer(const Peer& peer);
  std::uint16_t shard(const ShardPattern& shard);
  std::uint32_t tensor_spec(const TensorSpec& spec);
  std::uint32_t op_spec(const OpSpec& spec);

  Body& add_body(std::string name);  // invalidates references to earlier bodies

  // A storage of its own for one tensor.
  std::uint32_t transient(Body& body, std::uint32_t spec, Category category, Place where);
  std::uint32_t storage(Body& body, std::int64_t bytes, Category category, bool persistent);
  std::uint32_t view(Body& body, std::uint32_t spec, std::uint32_t storage, std::int64_t offset, Place where,
                     std::uint16_t shard = no_shard);
  // Appends an op; the operands must be as many as the spec's.
  Op& append(Body& body, std::uint32_t spec, std::span<const std::uint32_t> reads,
             std::span<const std::uint32_t> writes, Place where, std::span<const Message> messages = {});
  // Interns `spec` with the operands' specs as reads and writes, then appends.
  Op& append(Body& body, OpSpec spec, std::span<const std::uint32_t> reads, std::span<const std::uint32_t> writes,
             Place where, std::span<const Message> messages = {});

 private:
  std::uint8_t stream(const Stream& wanted);

  Program program_;
  std::unordered_multimap<std::size_t, std::uint32_t> tensor_index_;
  std::unordered_multimap<std::size_t, std::uint32_t> op_index_;
};

}  // namespace meshweave
