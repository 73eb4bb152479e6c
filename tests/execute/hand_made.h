// Small programs written by hand: every rank has a body of its own, ranks stand along one axis.
//
//   HandMade p(2, cluster);
//   const auto x = p.tensor(0, 1000);
//   p.compute(0, 3.0, {}, {x});                       // 3 ms on rank 0, writes x
//   p.all_reduce(0, 1, 2, seconds_cost, stream);      // ranks 0 and 1
//   const PlayableProgram program = p.take();
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "sim/program/builder.h"
#include "tests/support/random_program.h"

namespace meshweave::testing {

constexpr double milliseconds = 1e9;  // picoseconds in one

inline Picoseconds from_ms(double ms) { return Picoseconds{std::llround(ms * milliseconds)}; }

class HandMade {
 public:
  using Tensors = std::vector<std::uint32_t>;

  HandMade(int ranks, Cluster cluster) : ranks_(ranks) {
    program_.costs.cluster = std::move(cluster);
    builder_.program().grids.emplace_back(Degrees{.pp = ranks}, "pp", 0);
    builder_.stream(StreamKind::compute);
    for (const StreamKind kind : {StreamKind::tensor, StreamKind::pipeline, StreamKind::data}) builder_.stream(kind);
    for (int rank = 0; rank < ranks; ++rank) {
      builder_.add_body("rank " + std::to_string(rank));
      builder_.program().body_of_rank.push_back(static_cast<std::uint32_t>(rank));
    }
    durations_.resize(static_cast<std::size_t>(ranks));
  }

  // A persistent tensor of `bytes` on its own storage.
  std::uint32_t tensor(int rank, std::int64_t bytes = 8) {
    TensorSpec spec;
    spec.name = "t";
    spec.rank = 1;
    spec.dimensions[0].size = bytes;
    spec.dtype = DType::uint8;
    const std::uint32_t storage = builder_.storage(body(rank), bytes, Category::parameters, true);
    return builder_.view(body(rank), builder_.tensor_spec(spec), storage, 0, {});
  }

  void compute(int rank, double ms, const Tensors& reads = {}, const Tensors& writes = {}, bool sync = false) {
    OpSpec spec = spec_of(OpKind::add, 0);
    spec.sync = sync;
    append(rank, spec, reads, writes, {}, ms);
  }

  // Over the `count` ranks first, first + stride, …; each with tensors of its own unless given.
  void all_reduce(int first, int stride, int count, const TransferCost& cost, std::uint8_t stream,
                  const std::vector<std::uint32_t>& tensors = {}) {
    OpSpec spec = spec_of(OpKind::all_reduce, stream);
    spec.group = builder_.group({"group", 0, {{Axis::pp, stride, count}}});
    for (int i = 0; i < count; ++i) {
      const int rank = first + i * stride;
      const std::uint32_t t = tensors.empty() ? tensor(rank) : tensors[static_cast<std::size_t>(i)];
      append(rank, spec, {t}, {t}, {}, 0);
    }
    collectives_.push_back(cost);
  }

  // A batch on each of two ranks with one message between them.
  void message(int source, std::uint32_t sent, int destination, std::uint32_t received, std::uint8_t stream,
               std::uint8_t stripes = 1) {
    const auto forward = builder_.peer(peer_along(builder_.program().grids[0], Axis::pp, destination - source));
    const auto back = builder_.peer(peer_along(builder_.program().grids[0], Axis::pp, source - destination));
    OpSpec send = spec_of(OpKind::point_to_point, stream);
    OpSpec receive = spec_of(OpKind::point_to_point, stream);
    send.attributes.stripes = receive.attributes.stripes = stripes;
    append(source, send, {sent}, {}, {{true, forward, tag_, sent}}, 0);
    append(destination, receive, {}, {received}, {{false, back, tag_, received}}, 0);
    ++tag_;
  }

  PlayableProgram& costs() { return program_; }

  PlayableProgram take() {
    PlayableProgram& p = program_;
    p.program = builder_.take();
    p.communicators = make_communicators(p.program);
    for (const Body& b : p.program.bodies) p.waits.push_back(derive_waits(p.program, b));
    p.classes = all_ranks(p.program);
    p.costs.compute = durations_;
    for (const Communicators::Of& group : p.communicators.by_group) {
      p.costs.placement_of.emplace_back(group.instances(), 0);
    }
    p.costs.transfer_base.assign(p.program.op_specs.size(), 0);
    for (std::size_t s = 0; s < p.program.op_specs.size(); ++s) {
      if (!is_collective(p.program.op_specs[s].kind)) continue;
      p.costs.transfer_base[s] = static_cast<std::uint32_t>(p.costs.transfers.size());
      p.costs.transfers.push_back(collectives_[p.costs.transfers.size()]);
    }
    return std::move(p);
  }

 private:
  Body& body(int rank) { return builder_.program().bodies[static_cast<std::size_t>(rank)]; }

  OpSpec spec_of(OpKind kind, std::uint8_t stream) {
    OpSpec spec;
    spec.kind = kind;
    spec.stream = stream;
    spec.label = "op " + std::to_string(labels_++);
    return spec;
  }

  void append(int rank, const OpSpec& spec, const Tensors& reads, const Tensors& writes,
              const std::vector<Message>& messages, double ms) {
    builder_.append(body(rank), spec, reads, writes, {}, messages);
    durations_[static_cast<std::size_t>(rank)].push_back(from_ms(ms));
  }

  int ranks_;
  ProgramBuilder builder_;
  PlayableProgram program_;
  std::vector<std::vector<Picoseconds>> durations_;
  std::vector<TransferCost> collectives_;
  std::uint32_t tag_ = 0;
  int labels_ = 0;
};

// A collective that takes `ms` on the NICs of `cluster` when alone.
inline TransferCost over_nics(const Cluster& cluster, double ms) {
  TransferCost cost;
  cost.nic_bytes = cluster.node.nic_bytes_per_s * ms * 1e-3;
  cost.nic_cap = 1e15;
  cost.intra_cap = 1e15;
  return cost;
}

// Nodes of one GPU with a NIC of 50 GB/s each; messages start at once and reach the full rate.
inline Cluster bare_cluster(int nodes) {
  Cluster cluster = plain_cluster(nodes);
  cluster.node.gpus = 1;
  CollectiveCurve& curve = cluster.node.collectives.curves[0];
  curve.base_s = curve.intra_hop_s = curve.nic_hop_s = 0;
  curve.intra_efficiency = curve.nic_efficiency = 1;
  return cluster;
}

// A node of `gpus` whose pairs have a link of 50 GB/s each way; messages as above.
inline Cluster bare_mesh(int gpus, int nodes = 1) {
  Cluster cluster = bare_cluster(nodes);
  cluster.node.gpus = gpus;
  cluster.node.fabric = NodeFabric::mesh;
  cluster.node.link_bytes_per_s = 50e9;
  return cluster;
}

inline double ms_of(Picoseconds t) { return static_cast<double>(t.count()) / milliseconds; }

}  // namespace meshweave::testing
