// Small programs made by hand: one body per pipeline rank of a grid tp × dp × pp, operands by name and size.
#pragma once

#include <string>
#include <vector>

#include "sim/program/builder.h"

namespace meshweave::test {

class HandMade {
 public:
  HandMade(int tp, int dp, int pp) {
    Program& program = builder_.program();
    program.grids.emplace_back(Degrees{.tp = tp, .dp = dp, .pp = pp}, "tp-dp-pp", 0);
    for (int stage = 0; stage < pp; ++stage) builder_.add_body("stage " + std::to_string(stage));
    for (int rank = 0; rank < tp * dp * pp; ++rank) {
      program.body_of_rank.push_back(static_cast<std::uint32_t>(rank / (tp * dp)));
    }
    tp_group = builder_.group({"tp", 0, {{Axis::tp, 1, tp}}});
    dp_group = builder_.group({"dp", 0, {{Axis::dp, 1, dp}}});
    pp_group = builder_.group({"pp", 0, {{Axis::pp, 1, pp}}});
    tensor_stream = builder_.stream(StreamKind::tensor);
    pipeline_stream = builder_.stream(StreamKind::pipeline);
    data_stream = builder_.stream(StreamKind::data);
    next = builder_.peer(peer_along(builder_.program().grids[0], Axis::pp, 1));
    previous = builder_.peer(peer_along(builder_.program().grids[0], Axis::pp, -1));
  }

  Program& program() { return builder_.program(); }
  Body& body() { return program().bodies[stage_]; }
  void on_stage(std::size_t stage) { stage_ = stage; }

  static TensorSpec spec(std::string name, std::vector<Dimension> dimensions, AxisMask partial = 0,
                         DType dtype = DType::bf16) {
    TensorSpec s;
    s.name = std::move(name);
    s.rank = static_cast<std::uint8_t>(dimensions.size());
    for (std::size_t i = 0; i < dimensions.size(); ++i) s.dimensions[i] = dimensions[i];
    s.partial = partial;
    s.dtype = dtype;
    return s;
  }
  std::uint32_t transient(const TensorSpec& s) {
    return builder_.transient(body(), builder_.tensor_spec(s), Category::activations, {});
  }
  // Of a category that the step before, or the initialisation, has written.
  std::uint32_t persistent(const TensorSpec& s, Category category = Category::parameters) {
    return builder_.view(body(), builder_.tensor_spec(s), builder_.storage(body(), s.bytes(), category, true), 0, {});
  }
  std::uint32_t view(std::uint32_t of, const TensorSpec& s) {
    return builder_.view(body(), builder_.tensor_spec(s), body().tensors[of].storage, 0, {});
  }

  using Tensors = std::vector<std::uint32_t>;
  void op(OpKind kind, const std::string& label, const Tensors& reads, const Tensors& writes,
          OpAttributes attributes = {}, Phase phase = Phase::forward) {
    OpSpec s;
    s.kind = kind;
    s.label = label;
    s.attributes = attributes;
    s.phase = phase;
    builder_.append(body(), s, reads, writes, {});
  }
  void collective(OpKind kind, const std::string& label, std::uint16_t group, std::uint8_t stream, std::uint32_t read,
                  std::uint32_t write, OpAttributes attributes = {}) {
    OpSpec s;
    s.kind = kind;
    s.label = label;
    s.group = group;
    s.stream = stream;
    s.attributes = attributes;
    builder_.append(body(), s, Tensors{read}, Tensors{write}, {});
  }
  static Message send(std::uint8_t peer, std::uint32_t tag, std::uint32_t tensor) { return {true, peer, tag, tensor}; }
  static Message receive(std::uint8_t peer, std::uint32_t tag, std::uint32_t tensor) {
    return {false, peer, tag, tensor};
  }
  void batch(const std::string& label, const std::vector<Message>& messages, std::uint8_t stripes = 1) {
    OpSpec s;
    s.attributes.stripes = stripes;
    s.kind = OpKind::point_to_point;
    s.label = label;
    s.stream = pipeline_stream;
    Tensors reads, writes;
    for (const Message& m : messages) (m.send ? reads : writes).push_back(m.tensor);
    builder_.append(body(), s, reads, writes, {}, messages);
  }
  // The beginning and the end of a tensor that matters only in between.
  std::uint32_t made(const TensorSpec& s) {
    const std::uint32_t t = transient(s);
    op(OpKind::fill, "make", {}, {t});
    return t;
  }
  void used(std::uint32_t t) {
    TensorSpec s = program().tensor_spec(body(), t);
    s.name = "kept " + s.name;
    op(OpKind::reorder, "use", {t}, {persistent(s, Category::optimizer_state)});
  }

  std::uint16_t tp_group, dp_group, pp_group;
  std::uint8_t tensor_stream, pipeline_stream, data_stream;
  std::uint8_t next, previous;

 private:
  ProgramBuilder builder_;
  std::size_t stage_ = 0;
};

}  // namespace meshweave::test
