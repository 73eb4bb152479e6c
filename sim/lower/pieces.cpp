#include "sim/lower/pieces.h"

#include <algorithm>
#include <map>

#include "sim/base/error.h"
#include "sim/base/narrow.h"

namespace meshweave {

namespace {

bool reads(const BlockOp& op, Value v) { return std::find(op.reads.begin(), op.reads.end(), v) != op.reads.end(); }

// A matmul whose tokens may be computed apart: x·Wᵀ or dy·W.
bool is_token_matmul(const BlockOp& op) {
  return op.spec.kind == OpKind::matmul && op.spec.attributes.matmul != MatmulForm::weight_gradient;
}

class Splitter {
 public:
  Splitter(const ModuleContext& context, Block& block, int pieces)
      : context_(context), block_(block), pieces_(static_cast<std::size_t>(pieces)) {}

  void split(std::vector<BlockOp>& part) {
    ops_.clear();
    std::vector<bool> done(part.size(), false);
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (done[i]) continue;
      const BlockOp op = part[i];
      if (const std::size_t matmul = gathered_for(part, i); matmul < part.size()) {
        for (std::size_t c = 0; c < pieces_; ++c) ops_.push_back(piece(op, c));
        gathered_.push_back(op.writes[0]);
      } else if (const std::size_t scatter = scattered_behind(part, i); scatter < part.size()) {
        for (std::size_t c = 0; c < pieces_; ++c) {
          ops_.push_back(piece(op, c));
          ops_.push_back(piece(part[scatter], c));
        }
        done[scatter] = true;
      } else if (is_token_matmul(op) && is_gathered(op.reads[0])) {
        for (std::size_t c = 0; c < pieces_; ++c) ops_.push_back(piece(op, c));
        std::erase(gathered_, op.reads[0]);
      } else {
        ops_.push_back(op);
      }
    }
    part = ops_;
  }

 private:
  // The matmul that is the first to read what the all-gather at `i` makes; the size of `part` when there is none.
  static std::size_t gathered_for(const std::vector<BlockOp>& part, std::size_t i) {
    if (part[i].spec.kind != OpKind::all_gather) return part.size();
    const Value whole = part[i].writes[0];
    std::size_t j = i + 1;
    while (j < part.size() && !reads(part[j], whole)) ++j;
    if (j == part.size()) return j;
    return is_token_matmul(part[j]) && part[j].reads[0] == whole ? j : part.size();
  }

  // The reduce-scatter of what the matmul at `i` makes; the size of `part` when there is none to be split.
  static std::size_t scattered_behind(const std::vector<BlockOp>& part, std::size_t i) {
    if (!is_token_matmul(part[i]) || part[i].spec.phase == Phase::backward_data) return part.size();
    const Value partial = part[i].writes[0];
    std::size_t j = i + 1;
    while (j < part.size() && !reads(part[j], partial)) ++j;
    return j < part.size() && part[j].spec.kind == OpKind::reduce_scatter ? j : part.size();
  }

  bool is_gathered(Value v) const { return std::find(gathered_.begin(), gathered_.end(), v) != gathered_.end(); }

  // Piece `c` of an op: of every operand with tokens its piece. Weights and biases stay whole.
  BlockOp piece(BlockOp op, std::size_t c) {
    op.spec.same_call = c > 0;
    for (Value& v : op.reads) {
      if (block_.values[v].role != Role::parameter) v = pieces_of(v)[c];
    }
    for (Value& v : op.writes) v = pieces_of(v)[c];
    return op;
  }

  const std::vector<Value>& pieces_of(Value whole) {
    const auto [it, is_new] = of_whole_.try_emplace(whole);
    for (std::size_t c = 0; is_new && c < pieces_; ++c) it->second.push_back(make_piece(whole, c));
    return it->second;
  }

  Value make_piece(Value whole, std::size_t c) {
    BlockValue piece = block_.values[whole];
    Dimension& sequence = piece.spec.dimensions[0];
    const auto pieces = static_cast<std::int64_t>(pieces_);
    ensure(sequence.size % pieces == 0, "pieces do not divide the sequence of " + piece.spec.name);
    sequence.size /= pieces;
    const bool is_share = (sequence.sharded_over & context_.tp_axis) != 0;
    piece.spec.runs = narrow<std::uint32_t>(is_share ? 1 : context_.tp(), "runs");
    piece.of_input |= piece.role == Role::input;
    piece.role = Role::local;
    piece.alias = whole;
    piece.alias_offset = static_cast<std::int64_t>(c) * piece.spec.bytes();
    block_.values.push_back(std::move(piece));
    return static_cast<Value>(block_.values.size() - 1);
  }

  const ModuleContext& context_;
  Block& block_;
  std::size_t pieces_;
  std::vector<BlockOp> ops_;
  std::vector<Value> gathered_;  // gathered in pieces, the matmul still to come
  std::map<Value, std::vector<Value>> of_whole_;
};

}  // namespace

void split_tensor_parallel(const ModuleContext& context, Block& block, int pieces) {
  if (pieces == 1 || !context.sequence_parallel()) return;
  Splitter splitter(context, block, pieces);
  splitter.split(block.forward);
  splitter.split(block.backward);
}

}  // namespace meshweave
