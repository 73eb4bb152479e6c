// Stamps the part of a module that one pipeline rank holds into a body: its blocks for every micro-batch, its
// parameters, its loss. All ranks that share the body have the same part.
//
// A part has two ends per chunk and micro-batch: the input and the output of the chunk's blocks, and their gradients.
// What comes from another rank is made by receive(), what goes to one is to_send(); in between forward() and backward()
// fill them in.
#pragma once

#include <map>
#include <tuple>

#include "sim/lower/module_blocks.h"
#include "sim/lower/parameters.h"

namespace meshweave {

class StageLowering {
 public:
  // Lays out the parameters of the virtual stages that pipeline rank `pp` holds. `blocks` and `body` outlive it.
  StageLowering(const ModuleContext& context, ProgramBuilder& builder, Body& body, const ModuleBlocks& blocks, int pp);

  const ModuleContext& context() const { return context_; }
  int virtual_stage(int chunk) const { return context_.plan->placement.stage(pp_, chunk); }

  // What stands before the first and behind the last micro-batch of the step.
  void begin_step();
  void finish_step();

  void forward(int chunk, int micro_batch);
  void backward(int chunk, int micro_batch);
  void weight(int chunk, int micro_batch);

  // The chunk's output, or with `backward` the gradient of its input.
  std::uint32_t to_send(int chunk, int micro_batch, bool backward) const;
  // A fresh tensor for the chunk's input, or with `backward` for the gradient of its output.
  std::uint32_t receive(int chunk, int micro_batch, bool backward);

 private:
  using Tensors = std::vector<std::uint32_t>;  // of one stamped block, by value

  struct Key {
    int chunk, micro_batch;
    auto operator<=>(const Key&) const = default;
  };

  // What lives between the actions of one (chunk, micro-batch).
  struct InFlight {
    std::uint32_t input = no_tensor, output = no_tensor;
    std::uint32_t output_gradient = no_tensor, input_gradient = no_tensor;
    std::vector<Tensors> stamped;  // by site of the chunk
  };

  const StagePart& part_of(int chunk) const;
  std::vector<Site> make_sites(const ModuleBlocks& blocks);
  std::size_t first_site(int chunk) const { return first_site_[static_cast<std::size_t>(chunk)]; }
  std::size_t end_site(int chunk) const { return first_site_[static_cast<std::size_t>(chunk) + 1]; }
  bool has_head() const { return part_of(context_.plan->placement.chunks() - 1).head; }

  std::uint32_t external(const BlockValue& value, int micro_batch);
  std::uint32_t resolve(std::size_t site, Tensors& tensors, Value v, const Place& where);
  void stamp(std::size_t site, const std::vector<BlockOp>& ops, Tensors& tensors, int micro_batch);
  std::vector<Message> messages(const BlockOp& op, const std::vector<BlockOp>& ops, const Place& where) const;
  void completed(std::size_t site, int micro_batch);
  void begin_loss();
  void reduce_loss();

  static constexpr std::uint32_t no_tensor = 0xffffffff;

  const ModuleContext& context_;
  ProgramBuilder& builder_;
  Body& body_;
  int pp_;
  bool train_;
  std::vector<std::size_t> first_site_;  // by chunk, and the end
  std::vector<Site> sites_;
  ParameterStore parameters_;
  std::map<Key, InFlight> in_flight_;
  std::map<std::tuple<Role, int>, std::uint32_t> externals_;
  std::uint32_t loss_ = no_tensor;
  std::vector<std::uint32_t> reads_, writes_;
};

}  // namespace meshweave
