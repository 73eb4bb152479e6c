// The persistent tensors of one rank: parameters, main gradients and optimizer state in flat buckets, and the
// communications and optimizer steps over them.
//
// As in Megatron-LM's distributed data parallel, parameters are laid out in flat buffers in the order in which their
// gradients become ready (last layer first) and cut into buckets of `bucket_parameters` or more. A bucket holds only
// parameters that are sharded, or only such that are replicated, over tp or tsp; a tied embedding table has a bucket
// of its own. The DP group spans dp and cp, whose ranks hold the same parameters, as Megatron-LM's does. ZeRO-1
// (Rajbhandari et al. 1910.02054): each rank of that group (of its optimizer instance) owns a contiguous shard of every
// bucket.
#pragma once

#include <vector>

#include "sim/lower/block.h"

namespace meshweave {

// A block where it stands on a rank.
struct Site {
  const Block* block = nullptr;
  int layer = -1;        // global layer; −1 for embedding and head
  int input_layer = -1;  // layer of its input tensor
  int chunk = 0;
};

struct Bucket {
  int chunk = 0;
  bool replicated = false;  // over tensor parallelism
  bool tied = false;
  std::uint32_t tied_parameter = 0;  // of first_site
  std::size_t first_site = 0;        // the site whose backward completes the bucket
  std::int64_t parameters = 0;       // padded to a multiple of the shards
  std::uint32_t weights = 0;         // tensor: the flat parameters
  std::uint32_t weight_shard = 0;
  std::uint32_t gradients = 0;       // tensor: the flat main gradients, partial
  std::uint32_t reduced = 0;         // tensor: what the optimizer reads, set by reduce()
  std::vector<std::uint32_t> state;  // main parameters (unless the parameters are), first and second moment
};

class ParameterStore {
 public:
  // Lays out the parameters of all sites (in forward order); training adds gradients and optimizer state.
  ParameterStore(const ModuleContext& context, ProgramBuilder& builder, Body& body, const std::vector<Site>& sites);

  std::uint32_t weight(std::size_t site, std::uint32_t parameter) const { return weights_[site][parameter]; }
  std::uint32_t gradient(std::size_t site, std::uint32_t parameter) const { return gradients_[site][parameter]; }
  const std::vector<Bucket>& buckets() const { return buckets_; }

  void zero_gradients();
  // Sums of a bucket's gradients: over tp (replicated parameters under sequence parallelism) and over dp.
  void reduce(std::size_t bucket);
  // The sum of a tied table over first and last stage. It stands behind the last exchange: the first stage has its
  // part only once the last gradient has come through the pipeline.
  void reduce_tied();
  // Norm, clip and Adam, after all buckets are reduced. `count_tied`: this stage counts the tied table in the norm.
  void step(bool count_tied);
  // ZeRO-1: all-gathers of the parameters, in forward order; `blocking` holds the host until the last ends.
  void gather(bool blocking);

 private:
  struct Item {
    std::size_t site;
    std::uint32_t parameter;
  };

  bool share_tied(const Item& item);
  bool is_replicated(const TensorSpec& spec) const;
  void make_bucket(const std::vector<Item>& items, const std::vector<Site>& sites);
  // A view of a bucket's storage as a whole, or the shard of the rank.
  std::uint32_t flat(const Bucket& bucket, const std::string& name, std::int64_t size, DType dtype, AxisMask partial,
                     std::uint32_t storage, bool shard);
  // Appends an in-place collective; returns the tensor that views its result.
  std::uint32_t collective(OpKind kind, const std::string& label, std::uint16_t group, std::uint32_t read,
                           TensorSpec written, std::uint16_t shard, int chunk);
  void all_reduce(Bucket& bucket, const char* label, std::uint16_t group, AxisMask axes);
  std::uint32_t gradient_norm(bool count_tied);
  OpSpec op(OpKind kind, Phase phase, const std::string& label) const;

  const ModuleContext& context_;
  ProgramBuilder& builder_;
  Body& body_;
  bool train_;
  bool sharded_;                             // ZeRO-1 over more than one rank
  int shards_ = 1;                           // ranks of one optimizer instance's shard group
  AxisMask model_axis_ = 0;                  // tp or tsp, over which weights are sharded
  std::vector<AxisPattern> shard_patterns_;  // of an instance's ranks, when sharded
  AxisMask shard_axes_ = 0;                  // those along which there are several
  std::uint16_t own_shard_ = no_shard;       // the rank's of every bucket, when sharded
  std::uint16_t dp_group_ = no_group;
  std::uint16_t shard_group_ = no_group;
  std::uint16_t instance_group_ = no_group;
  std::vector<std::vector<std::uint32_t>> weights_;
  std::vector<std::vector<std::uint32_t>> gradients_;
  std::vector<Bucket> buckets_;
};

}  // namespace meshweave
