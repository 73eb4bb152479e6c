// The backward of a block, derived from its forward: one adjoint rule per op kind, walked in reverse.
//
// An activation's gradient contributions are summed and reduced once, behind the last:
//   all-gather → reduce-scatter (the gradient is partial)     reduce-scatter → all-gather
//   all-reduce → identity                                     a column-parallel input → all-reduce
//   broadcast of a weight → reduce to its owner               all-to-all → the inverse all-to-all
// Weight gradients accumulate into main gradients and stay partial there. They follow the communication of their
// data gradient, or go to a part of their own (`split_weight`). The gradient of a visiting weight goes to its owner,
// where it is added to the main gradient. A region (Block::regions) has a rule of its own.
//
// What a rule reads of the forward is saved, unless it is marked to be made again: gathers always, the attention
// core under recompute `selective`; `full` re-emits the whole block first and saves its input alone.
#pragma once

#include <map>

#include "sim/lower/block.h"

namespace meshweave {

void derive_backward(const ModuleContext& context, Block& block, Recompute recompute, bool split_weight);

class Adjoint {
 public:
  Adjoint(const ModuleContext& context, Block& block, Recompute recompute, bool split_weight)
      : context_(context), block_(block), recompute_(recompute), split_weight_(split_weight) {}

  void run();

  // For the rules of regions.
  const ModuleContext& context() const { return context_; }
  const TensorSpec& spec(Value v) const { return block_.spec(v); }
  Value add(BlockValue value);
  TensorSpec gradient_spec(Value v) const;  // of a value's whole gradient
  Value gradient(Value v);                  // whole; all contributions must have been made
  Value needed(Value v);                    // the forward value as the backward may read it: saved, or made again
  void contribute(Value v, Value g);        // g is a part of the gradient of v
  void emit(OpKind kind, std::string label, std::vector<Value> reads, std::vector<Value> writes,
            const OpAttributes& attributes = {});
  // Adds to what stands behind a data gradient: weight gradients, and what is done with them.
  void emit_weight(OpKind kind, std::string label, std::vector<Value> reads, std::vector<Value> gradients,
                   const OpAttributes& attributes);
  // The same behind everything else of the block: for what a communication brings late.
  void emit_weight_late(OpKind kind, std::string label, std::vector<Value> reads, std::vector<Value> gradients);
  void push(BlockOp op);
  // The main gradient of a parameter, partial over `partial`; a tied table's also over the stages that share it.
  Value main_gradient(Value parameter, AxisMask partial);

 private:
  void count_readers();
  Value contribution(Value v, const BlockOp& op, AxisMask partial = 0);
  const BlockOp& producer(Value v) const;
  Value re_emit(const BlockOp& forward, std::map<Value, Value>& fresh, Value v);
  void re_emit_all();
  BlockOp make_op(OpKind kind, Phase phase, std::string label, std::vector<Value> reads, std::vector<Value> writes,
                  const OpAttributes& attributes) const;
  void flush_weights();
  std::vector<Value> communicate(OpKind kind, const std::string& label, const BlockOp& forward,
                                 std::vector<Value> reads, std::vector<BlockValue> written,
                                 const OpAttributes& attributes);
  bool has_gradient(Value v) const;
  Value summed(Value v);
  Value reduced(Value g, Value of);
  bool is_parameter(Value v) const { return block_.values[v].role == Role::parameter; }
  // Where the gradient of a weight goes that the product reads: its main gradient, or a fresh one of a visitor.
  Value weight_gradient(Value weight, AxisMask partial);

  void reverse(const BlockOp& op);
  void emit_unary(const BlockOp& op, OpKind kind, std::vector<Value> reads);
  void bias_gradient(Value bias, const std::string& label, std::vector<Value> dy);
  void matmul(const BlockOp& op);
  AxisMask own_share(Value queries, Value keys) const;
  void attention(const BlockOp& op);
  void batched_matmul(const BlockOp& op);
  void norm(const BlockOp& op);
  void rope(const BlockOp& op);
  void residual_add(const BlockOp& op);
  void embedding(const BlockOp& op);
  void position_add(const BlockOp& op);
  void all_gather(const BlockOp& op);
  void reduce_scatter(const BlockOp& op);
  void all_to_all(const BlockOp& op);
  void broadcast(const BlockOp& op);
  void reorder(const BlockOp& op);
  void cross_entropy(const BlockOp& op);
  // Adds gradients of visitors, or of gathered weights, to the owners' main gradients.
  void send_home(OpKind kind, const BlockOp& forward, const OpAttributes& attributes);

  const ModuleContext& context_;
  Block& block_;
  Recompute recompute_;
  bool split_weight_;
  std::vector<int> readers_;                       // of each forward value
  std::vector<std::vector<Value>> contributions_;  // to the gradient of each forward value
  std::map<Value, Value> full_;                    // forward value → its re-emission, recompute full
  std::map<Value, Value> again_;                   // forward value → its re-emission, marked values
  std::vector<BlockOp> weights_;                   // weight gradients not yet placed
  std::vector<BlockOp> late_;                      // those that stand behind all others
};

}  // namespace meshweave
