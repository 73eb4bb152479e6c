// A block: the ops of one piece of a module (a layer, the embedding, the head) for one micro-batch, recorded once and
// stamped into bodies with arguments.
//
// A block is recorded forward over block-local values; the adjoint rules (adjoint.h) then derive its backward, and
// with it which forward values are saved. Values that both parts use are created by the forward stamp and read by
// the backward stamp, so activation memory follows from what the rules read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/lower/module_context.h"
#include "sim/program/builder.h"

namespace meshweave {

using Value = std::uint32_t;
constexpr Value no_value = 0xffffffff;

enum class Role : std::uint8_t {
  input,            // the block's argument: output of the block before
  output_gradient,  // the backward's argument
  parameter,        // persistent weight; `parameter` is its index in Block::parameters
  main_gradient,    // persistent gradient of it
  token_ids,
  labels,
  loss,
  local,  // made by an op of the block
};

// When a forward value that the backward reads is made again instead of being saved.
enum class ReEmit : std::uint8_t {
  never,
  always,     // gathers of sequence parallelism, visiting weights, gathered keys and values
  selective,  // inside the attention core, under recompute "selective"
  kept,       // not even under recompute "full"
};

struct BlockValue {
  TensorSpec spec;
  Role role = Role::local;
  Category category = Category::activations;
  std::uint32_t parameter = 0;
  Value alias = no_value;         // shares the storage of this value: the result of a collective in place, or a piece
  std::int64_t alias_offset = 0;  // bytes into the shared value at which this one starts
  ReEmit re_emit = ReEmit::never;
  bool secondary = false;         // exists only when something reads it
  bool of_input = false;          // belongs to the layer of the block's input (its gradient)
  std::uint32_t tensor_spec = 0;  // interned by finish()
};

constexpr std::uint8_t no_peer = 0xff;

struct BlockOp {
  OpSpec spec;
  std::vector<Value> reads;
  std::vector<Value> writes;
  // A hop along a ring (point_to_point): what is read goes to one neighbour, what is written comes from the other.
  std::uint8_t send_to = no_peer;
  std::uint8_t receive_from = no_peer;
  std::int16_t region = -1;   // index into Block::regions; −1: its own adjoint rule
  std::uint32_t op_spec = 0;  // interned by finish()
};

// A weight of the block, [rows, columns] or [n]. `tied` names the embedding table that first and last stage share.
struct Parameter {
  std::string name;
  TensorSpec spec;
  Value value = no_value;
  Value main_gradient = no_value;
  bool tied = false;
};

class Adjoint;

struct Block {
  std::string name;
  std::vector<BlockValue> values;
  std::vector<Parameter> parameters;
  std::vector<BlockOp> forward;
  std::vector<BlockOp> backward;
  std::vector<BlockOp> weight;  // weight gradients when they are split from the backward
  // The backward of a run of forward ops as a whole, where it is not that of its ops one by one.
  std::vector<std::function<void(Adjoint&)>> regions;
  Value input = no_value;
  Value output = no_value;
  Value output_gradient = no_value;
  Value input_gradient = no_value;

  const TensorSpec& spec(Value v) const { return values[v].spec; }
};

// Records the forward of a block. Every function appends ops and returns the new value.
class BlockRecorder {
 public:
  BlockRecorder(const ModuleContext& context, Block& block) : context_(context), block_(block) {}

  const ModuleContext& context() const { return context_; }
  Block& block() { return block_; }

  Value add(BlockValue value);
  Value input(const TensorSpec& spec);
  Value external(Role role, const TensorSpec& spec);
  Value parameter(std::string name, std::vector<Dimension> dimensions, bool tied = false,
                  const std::array<std::int64_t, 3>& packed = {});
  Value local(std::string name, std::vector<Dimension> dimensions, DType dtype, AxisMask partial = 0,
              Category category = Category::activations);
  // Like `like` under another name: elementwise results.
  Value local_like(std::string name, Value like);
  void op(OpKind kind, std::string label, std::vector<Value> reads, std::vector<Value> writes,
          const OpAttributes& attributes = {});
  // A communication over the tensor-parallel group, on its stream.
  void tensor_op(OpKind kind, std::string label, Value read, Value write, const OpAttributes& attributes = {});
  // A collective of several operands in one call.
  void collective(OpKind kind, std::string label, std::uint8_t stream, std::uint16_t group, std::vector<Value> reads,
                  std::vector<Value> writes, const OpAttributes& attributes = {});
  // A hop to the next rank of the module's ring.
  void hop(std::string label, std::uint8_t stream, std::vector<Value> sent, std::vector<Value> received,
           const OpAttributes& attributes = {});
  // Ops recorded until end_region() have `backward` as their adjoint.
  void begin_region(std::function<void(Adjoint&)> backward);
  void end_region() { region_ = -1; }

 private:
  const ModuleContext& context_;
  Block& block_;
  std::int16_t region_ = -1;
};

// A hop along the module's ring; both parts of a block make them.
BlockOp ring_hop(const ModuleContext& context, Phase phase, std::string label, std::uint8_t stream,
                 std::vector<Value> sent, std::vector<Value> received, const OpAttributes& attributes);

TensorSpec make_spec(std::string name, const std::vector<Dimension>& dimensions, DType dtype, AxisMask partial,
                     std::uint16_t grid);

// Drops secondary outputs that nothing reads, and interns all specs.
void finish(ProgramBuilder& builder, Block& block);

}  // namespace meshweave
