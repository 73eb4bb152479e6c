#include "tests/support/random_program.h"

#include <algorithm>
#include <random>

#include "sim/program/builder.h"

namespace meshweave::testing {
namespace {

class Generator {
 public:
  Generator(std::uint64_t seed, const RandomProgramOptions& options)
      : random_(seed), options_(options), result_(std::make_unique<PlayableProgram>()) {}

  std::unique_ptr<PlayableProgram> make() {
    make_grid();
    make_streams();
    make_groups();
    make_tensors();
    for (int i = uniform(1, options_.most_events); i > 0; --i) append_event();
    finish();
    return std::move(result_);
  }

 private:
  int uniform(int first, int last) { return std::uniform_int_distribution<int>(first, last)(random_); }
  double real(double first, double last) { return std::uniform_real_distribution<double>(first, last)(random_); }
  bool one_in(int n) { return uniform(1, n) == 1; }

  void make_grid() {
    const int tp = uniform(1, 4);
    const int dp = uniform(1, 3);
    stages_ = uniform(1, 4);
    const char* orders[] = {"tp-dp-pp", "dp-tp-pp", "tp-pp-dp", "pp-dp-tp"};
    builder_.program().grids.emplace_back(Degrees{.tp = tp, .dp = dp, .pp = stages_}, orders[uniform(0, 3)], 0);
    const ProcessGrid& grid = builder_.program().grids[0];
    ranks_ = grid.size();
    for (int rank = 0; rank < ranks_; ++rank) {
      builder_.program().body_of_rank.push_back(static_cast<std::uint32_t>(grid.coordinate(rank, Axis::pp)));
    }
    const int nodes = (ranks_ + 7) / 8;
    result_->costs.cluster = one_in(3) ? mesh_cluster(nodes) : plain_cluster(nodes);
  }

  void make_streams() {
    builder_.stream(StreamKind::compute);
    if (options_.one_communication_stream) {
      communication_streams_.push_back(builder_.stream(StreamKind::tensor));
    } else {
      communication_streams_.push_back(0);
      for (const StreamKind kind : {StreamKind::tensor, StreamKind::pipeline, StreamKind::data}) {
        if (one_in(2) || communication_streams_.size() == 1) communication_streams_.push_back(builder_.stream(kind));
      }
    }
    copy_stream_ = builder_.stream(StreamKind::copy_out);
  }

  // Groups within a stage, over all stages, and over pairs of neighbouring stages.
  void make_groups() {
    const ProcessGrid& grid = builder_.program().grids[0];
    const AxisPattern tp{Axis::tp, 1, grid.degree(Axis::tp)};
    const AxisPattern dp{Axis::dp, 1, grid.degree(Axis::dp)};
    groups_.push_back({builder_.group({"tp", 0, {tp}}), 1});
    groups_.push_back({builder_.group({"dp", 0, {dp}}), 1});
    groups_.push_back({builder_.group({"tp+dp", 0, {tp, dp}}), 1});
    groups_.push_back({builder_.group({"world", 0, {tp, dp, {Axis::pp, 1, stages_}}}), stages_});
    groups_.push_back({builder_.group({"pp", 0, {{Axis::pp, 1, stages_}}}), stages_});
    if (stages_ >= 2) groups_.push_back({builder_.group({"pair", 0, {{Axis::pp, 1, 2}}}), 2});
    next_ = builder_.peer(peer_along(builder_.program().grids[0], Axis::pp, 1));
    previous_ = builder_.peer(peer_along(builder_.program().grids[0], Axis::pp, -1));
  }

  // Per body and size a few tensors: some alone in a storage, some overlapping in one.
  void make_tensors() {
    for (int bytes = 1; bytes <= 3; ++bytes) {
      TensorSpec spec;
      spec.name = "t";
      spec.rank = 1;
      spec.dimensions[0].size = bytes * 1000;
      spec.dtype = DType::uint8;
      specs_.push_back(builder_.tensor_spec(spec));
    }
    for (int stage = 0; stage < stages_; ++stage) builder_.add_body("stage");
    tensors_.resize(static_cast<std::size_t>(stages_));
    for (std::size_t stage = 0; stage < tensors_.size(); ++stage) {
      Body& body = builder_.program().bodies[stage];
      tensors_[stage].resize(specs_.size());
      const std::uint32_t shared = builder_.storage(body, 6000, Category::main_gradients, one_in(2));
      for (std::size_t spec = 0; spec < specs_.size(); ++spec) {
        for (int i = uniform(1, 3); i > 0; --i) {
          tensors_[stage][spec].push_back(builder_.transient(body, specs_[spec], Category::activations, {}));
        }
        tensors_[stage][spec].push_back(builder_.view(body, specs_[spec], shared, uniform(0, 3000), {}));
        const std::uint32_t own = builder_.storage(body, 3000, Category::parameters, true);
        tensors_[stage][spec].push_back(builder_.view(body, specs_[spec], own, 0, {}));
      }
    }
  }

  std::uint32_t tensor(int stage, int spec) {
    const auto& choice = tensors_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(spec)];
    return choice[static_cast<std::size_t>(uniform(0, static_cast<int>(choice.size()) - 1))];
  }

  void append_event() {
    switch (uniform(1, 6)) {
      case 1: append_copy(); break;
      case 2:
      case 3: append_collective(); break;
      case 4: append_batch(); break;
      default: append_kernel(); break;
    }
  }

  OpSpec spec_of(OpKind kind, std::uint8_t stream) {
    OpSpec spec;
    spec.kind = kind;
    spec.stream = stream;
    spec.label = "event " + std::to_string(events_++);  // an op spec, hence a cost, of its own
    spec.sync = options_.host && one_in(8);
    spec.same_call = options_.host && one_in(4);
    return spec;
  }

  void append_local(OpKind kind, std::uint8_t stream) {
    const int stage = uniform(0, stages_ - 1);
    Body& body = builder_.program().bodies[static_cast<std::size_t>(stage)];
    std::vector<std::uint32_t> reads;
    std::vector<std::uint32_t> writes;
    for (int i = uniform(0, 2); i > 0; --i) reads.push_back(tensor(stage, uniform(0, 2)));
    for (int i = uniform(0, 1); i > 0; --i) writes.push_back(tensor(stage, uniform(0, 2)));
    builder_.append(body, spec_of(kind, stream), reads, writes, {});
  }
  void append_kernel() { append_local(OpKind::add, 0); }
  void append_copy() { append_local(OpKind::add, copy_stream_); }

  std::uint8_t communication_stream() {
    return communication_streams_[static_cast<std::size_t>(
        uniform(0, static_cast<int>(communication_streams_.size()) - 1))];
  }

  void append_collective() {
    const auto [group, stages] = groups_[static_cast<std::size_t>(uniform(0, static_cast<int>(groups_.size()) - 1))];
    const int first = stages == 1 ? uniform(0, stages_ - 1) : uniform(0, stages_ / stages - 1) * stages;
    OpSpec spec = spec_of(OpKind::all_reduce, communication_stream());
    spec.group = group;
    const int size = uniform(0, 2);
    for (int stage = first; stage < first + stages; ++stage) {
      const std::uint32_t reads[] = {tensor(stage, size)};
      const std::uint32_t writes[] = {tensor(stage, size)};
      builder_.append(builder_.program().bodies[static_cast<std::size_t>(stage)], spec, reads, writes, {});
    }
  }

  struct Post {
    std::vector<Message> messages;
    int sends = 0;
    int receives = 0;
  };

  // Messages between neighbouring stages, cyclically; each stage posts its own as one batch.
  void append_batch() {
    std::vector<Post> posts(static_cast<std::size_t>(stages_));
    const int most = options_.one_communication_stream ? 1 : 4;
    for (int i = uniform(1, 3); i > 0; --i) {
      const int source = uniform(0, stages_ - 1);
      const bool forward = one_in(2);
      const int destination = (source + (forward ? 1 : stages_ - 1)) % stages_;
      Post& from = posts[static_cast<std::size_t>(source)];
      Post& to = posts[static_cast<std::size_t>(destination)];
      if (from.sends == most || to.receives == most) continue;
      ++from.sends;
      ++to.receives;
      const int size = uniform(0, 2);
      const std::uint32_t tag = tags_++;
      from.messages.push_back({true, forward ? next_ : previous_, tag, tensor(source, size)});
      to.messages.push_back({false, forward ? previous_ : next_, tag, tensor(destination, size)});
    }
    const std::uint8_t stream = communication_stream();
    // More than the links of a node stand for all of them.
    const auto stripes = static_cast<std::uint8_t>(one_in(2) ? 1 : uniform(2, 8));
    for (int stage = 0; stage < stages_; ++stage) {
      std::vector<Message>& messages = posts[static_cast<std::size_t>(stage)].messages;
      if (messages.empty()) continue;
      std::shuffle(messages.begin(), messages.end(), random_);
      std::vector<std::uint32_t> reads;
      std::vector<std::uint32_t> writes;
      for (const Message& m : messages) (m.send ? reads : writes).push_back(m.tensor);
      OpSpec spec = spec_of(OpKind::point_to_point, stream);
      spec.attributes.stripes = stripes;
      builder_.append(builder_.program().bodies[static_cast<std::size_t>(stage)], spec, reads, writes, {}, messages);
    }
  }

  TransferCost random_transfer() {
    TransferCost cost;
    cost.startup = Picoseconds{uniform(0, 3) * 1'000'000};
    cost.intra_bytes = one_in(3) ? 0 : real(1e3, 1e7);
    cost.nic_bytes = one_in(2) ? 0 : real(1e3, 1e6);
    cost.intra_cap = real(1e10, 1e12);
    cost.intra_links = uniform(1, 7);
    cost.nic_cap = real(1e10, 1e11);
    return cost;
  }

  // A collective's bytes must be playable: none inside a node where no two members share one, and none over
  // the NIC where all share one.
  void add_costs() {
    Costs& costs = result_->costs;
    const Program& program = result_->program;
    for (const Body& body : program.bodies) {
      auto& durations = costs.compute.emplace_back();
      for (const Op& op : body.ops) {
        const bool communication = is_communication(program.spec(op).kind);
        durations.push_back(Picoseconds{communication || one_in(5) ? 0 : uniform(1, 100'000'000)});
      }
    }
    for (const Communicators::Of& group : result_->communicators.by_group) {
      auto& placements = costs.placement_of.emplace_back();
      for (std::uint32_t i = 0; i < group.instances(); ++i) placements.push_back(i);
    }
    costs.transfer_base.assign(program.op_specs.size(), 0);
    for (std::size_t s = 0; s < program.op_specs.size(); ++s) {
      const OpSpec& spec = program.op_specs[s];
      if (!is_collective(spec.kind)) continue;
      costs.transfer_base[s] = static_cast<std::uint32_t>(costs.transfers.size());
      const TransferCost transfer = random_transfer();
      const Communicators::Of& group = result_->communicators.by_group[spec.group];
      for (std::uint32_t i = 0; i < group.instances(); ++i) {
        costs.transfers.push_back(playable(transfer, group.of(i)));
      }
    }
    if (options_.host) costs.host_issue = Picoseconds{uniform(0, 2) * 5'000'000};
  }

  TransferCost playable(TransferCost transfer, std::span<const int> members) const {
    const Cluster& cluster = result_->costs.cluster;
    std::vector<int> on_node(static_cast<std::size_t>(cluster.nodes), 0);
    for (const int rank : members) ++on_node[static_cast<std::size_t>(cluster.node_of(rank))];
    const bool spans = std::count_if(on_node.begin(), on_node.end(), [](int n) { return n > 0; }) > 1;
    const bool mates = std::any_of(on_node.begin(), on_node.end(), [](int n) { return n > 1; });
    const int most = *std::max_element(on_node.begin(), on_node.end());
    const bool even = std::all_of(on_node.begin(), on_node.end(), [&](int n) { return n == 0 || n == most; });
    // Members of a fuller node would share the NICs of an emptier one.
    if (!even && options_.one_communication_stream) return {transfer.startup};
    if (!spans) transfer.nic_bytes = 0;
    if (!mates) transfer.intra_bytes = 0;
    return transfer;
  }

  void add_perturbations() {
    for (int i = uniform(0, 2); i > 0; --i) {
      Perturbation p;
      p.index = uniform(0, ranks_ - 1);
      switch (uniform(1, 3)) {
        case 1:
          p.target = PerturbTarget::rank;
          p.compute_time = real(0.5, 2.0);
          break;
        case 2:
          p.target = PerturbTarget::node;
          p.index /= 8;
          p.compute_time = real(0.5, 2.0);
          break;
        default:
          p.target = PerturbTarget::link;
          p.link = one_in(2) ? "nic" : "intra";
          p.bandwidth = real(0.3, 1.0);
          break;
      }
      result_->perturb.push_back(p);
    }
  }

  void finish() {
    result_->program = builder_.take();
    result_->communicators = make_communicators(result_->program);
    for (const Body& body : result_->program.bodies) {
      result_->waits.push_back(derive_waits(result_->program, body));
    }
    result_->classes = all_ranks(result_->program);
    add_costs();
    add_perturbations();
  }

  std::mt19937_64 random_;
  const RandomProgramOptions options_;
  std::unique_ptr<PlayableProgram> result_;
  ProgramBuilder builder_;
  int stages_ = 1;
  int ranks_ = 1;
  std::vector<std::uint8_t> communication_streams_;
  std::uint8_t copy_stream_ = 0;
  std::vector<std::pair<std::uint16_t, int>> groups_;  // and the stages that one instance spans
  std::uint8_t next_ = 0;
  std::uint8_t previous_ = 0;
  std::vector<std::uint32_t> specs_;
  std::vector<std::vector<std::vector<std::uint32_t>>> tensors_;  // by stage and spec
  int events_ = 0;
  std::uint32_t tags_ = 0;
};

}  // namespace

Cluster plain_cluster(int nodes) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.node.gpus = 8;
  cluster.node.fabric = NodeFabric::nvswitch;
  cluster.node.link_bytes_per_s = 400e9;
  cluster.node.nic_bytes_per_s = 50e9;
  CollectiveCurve curve;
  curve.algorithm = CollectiveAlgorithm::p2p;
  curve.base_s = 2e-6;
  curve.intra_hop_s = 1e-6;
  curve.nic_hop_s = 5e-6;
  curve.intra_efficiency = 0.8;
  curve.nic_efficiency = 0.9;
  cluster.node.collectives.curves.push_back(curve);
  return cluster;
}

Cluster mesh_cluster(int nodes) {
  Cluster cluster = plain_cluster(nodes);
  cluster.node.fabric = NodeFabric::mesh;
  cluster.node.link_bytes_per_s = 60e9;
  return cluster;
}

std::unique_ptr<PlayableProgram> random_program(std::uint64_t seed, const RandomProgramOptions& options) {
  return Generator(seed, options).make();
}

}  // namespace meshweave::testing
