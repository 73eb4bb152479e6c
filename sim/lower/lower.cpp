#include "sim/lower/lower.h"

#include <map>
#include <tuple>

#include "sim/base/error.h"
#include "sim/lower/adjoint.h"
#include "sim/lower/chunks.h"
#include "sim/lower/parameters.h"
#include "sim/lower/transformer.h"
#include "sim/program/hoist.h"
#include "sim/schedule/schedule.h"

namespace meshweave {

namespace {

constexpr std::uint32_t no_tensor = 0xffffffff;

// The blocks of a module, derived once and stamped for every layer and micro-batch of every stage.
struct ModuleBlocks {
  Block embedding, layer, head;
};

ModuleBlocks make_blocks(ProgramBuilder& builder, const ModuleContext& context) {
  ModuleBlocks blocks{record_embedding(context), record_layer(context), record_head(context)};
  if (context.scenario->pass == Pass::train) {
    const bool split = context.scenario->schedule.defer_weight_gradients;
    derive_backward(context, blocks.embedding, Recompute::none, split);
    derive_backward(context, blocks.layer, context.layout().recompute, split);
    derive_backward(context, blocks.head, Recompute::none, split);
  }
  if (context.scenario->overlap.tp) chunk_tensor_parallel(context, blocks.layer, context.scenario->overlap.tp_chunks);
  for (Block* block : {&blocks.embedding, &blocks.layer, &blocks.head}) finish(builder, *block);
  return blocks;
}

std::string name_of_body(const ModuleContext& context, int stage) {
  std::string name = "stage " + std::to_string(stage);
  if (context.sequence_index >= 0) name += ", sequence part " + std::to_string(context.sequence_index);
  return name;
}

// Lowers one pipeline rank of a module into one body: all ranks that differ in other axes share it, but for those whose
// work depends on their part of the sequence.
class StageLowering {
 public:
  StageLowering(const ModuleContext& context, ProgramBuilder& builder, const ModuleBlocks& blocks, int stage)
      : context_(context),
        builder_(builder),
        stage_(stage),
        train_(context.scenario->pass == Pass::train),
        body_(builder.add_body(name_of_body(context, stage))),
        sites_(make_sites(blocks)),
        parameters_(context, builder, body_, sites_) {}

  void run(const InterruptFlag* interrupt) {
    const Scenario& scenario = *context_.scenario;
    if (scenario.overlap.param_gather) parameters_.gather(false);
    if (train_) parameters_.zero_gradients();
    begin_loss();
    const ModuleLayout& layout = context_.layout();
    PipelineShape shape{layout.pp, layout.vpp, context_.plan->micro_batches, !train_,
                        scenario.schedule.defer_weight_gradients};
    for (const Action& action : make_schedule(scenario.schedule.kind, shape, stage_)) {
      check_interrupt(interrupt);
      switch (action.kind) {
        case ActionKind::forward: forward(action.chunk, action.micro_batch); break;
        case ActionKind::backward: backward(action.chunk, action.micro_batch); break;
        case ActionKind::weight: weight(action.chunk, action.micro_batch); break;
        case ActionKind::exchange: exchange(action); break;
      }
    }
    finish_step();
  }

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

  const Stage& stage_of(int chunk) const { return context_.plan->stage(stage_, chunk); }
  int virtual_stage(int chunk) const { return chunk * context_.layout().pp + stage_; }

  std::vector<Site> make_sites(const ModuleBlocks& blocks) {
    std::vector<Site> sites;
    for (int chunk = 0; chunk < context_.layout().vpp; ++chunk) {
      const Stage& stage = stage_of(chunk);
      first_site_.push_back(sites.size());
      const int last = stage.first_layer + stage.layers;
      if (stage.embedding) sites.push_back({&blocks.embedding, -1, -1, chunk});
      for (int layer = stage.first_layer; layer < last; ++layer)
        sites.push_back({&blocks.layer, layer, layer - 1, chunk});
      if (stage.head) sites.push_back({&blocks.head, -1, last - 1, chunk});
    }
    first_site_.push_back(sites.size());
    return sites;
  }

  bool has_head() const { return stage_of(context_.layout().vpp - 1).head; }

  // --- stamping -----------------------------------------------------------------------------------------------

  std::uint32_t external(const BlockValue& value, int micro_batch) {
    if (value.role == Role::loss) return loss_;
    const auto key = std::tuple(value.role, micro_batch);
    if (const auto it = externals_.find(key); it != externals_.end()) return it->second;
    const std::uint32_t storage = builder_.storage(body_, value.spec.bytes(), Category::activations, true);
    const std::uint32_t tensor =
        builder_.view(body_, value.tensor_spec, storage, 0, {-1, static_cast<std::int16_t>(micro_batch), -1});
    externals_.emplace(key, tensor);
    return tensor;
  }

  std::uint32_t resolve(std::size_t site_index, Tensors& tensors, Value v, const Place& where) {
    if (tensors[v] != no_tensor) return tensors[v];
    const Site& site = sites_[site_index];
    const BlockValue& value = site.block->values[v];
    switch (value.role) {
      case Role::parameter: return tensors[v] = parameters_.weight(site_index, value.parameter);
      case Role::main_gradient: return tensors[v] = parameters_.gradient(site_index, value.parameter);
      case Role::token_ids:
      case Role::labels:
      case Role::loss: return tensors[v] = external(value, where.micro_batch);
      case Role::input:
      case Role::output_gradient: bug("argument of a block not set");
      case Role::local: break;
    }
    Place place = where;
    if (value.of_input) place.layer = static_cast<std::int16_t>(site.input_layer);
    if (value.alias != no_value) {
      const Tensor shared = body_.tensors[resolve(site_index, tensors, value.alias, where)];
      return tensors[v] =
                 builder_.view(body_, value.tensor_spec, shared.storage, shared.offset + value.alias_offset, place);
    }
    return tensors[v] = builder_.transient(body_, value.tensor_spec, value.category, place);
  }

  void stamp(std::size_t site_index, const std::vector<BlockOp>& ops, Tensors& tensors, int micro_batch) {
    const Site& site = sites_[site_index];
    const Place where{static_cast<std::int16_t>(site.layer), static_cast<std::int16_t>(micro_batch),
                      static_cast<std::int16_t>(site.chunk)};
    for (const BlockOp& op : ops) {
      reads_.clear();
      writes_.clear();
      for (Value v : op.reads) reads_.push_back(resolve(site_index, tensors, v, where));
      for (Value v : op.writes) writes_.push_back(resolve(site_index, tensors, v, where));
      builder_.append(body_, op.op_spec, reads_, writes_, where, messages(op, ops, where));
    }
  }

  std::vector<Message> messages(const BlockOp& op, const std::vector<BlockOp>& ops, const Place& where) const {
    std::vector<Message> all;
    if (op.spec.kind != OpKind::point_to_point) return all;
    const auto index = static_cast<std::size_t>(&op - ops.data()) << 1 | (op.spec.phase == Phase::forward ? 0u : 1u);
    const auto add = [&](bool send, std::uint8_t peer, const std::vector<std::uint32_t>& tensors) {
      for (std::size_t i = 0; i < tensors.size(); ++i)
        all.push_back({send, peer, ring_tag(where.layer, where.micro_batch, index, i), tensors[i]});
    };
    add(true, op.send_to, reads_);
    add(false, op.receive_from, writes_);
    return all;
  }

  // --- actions ------------------------------------------------------------------------------------------------

  void forward(int chunk, int micro_batch) {
    InFlight& flight = in_flight_[{chunk, micro_batch}];
    std::uint32_t current = flight.input;
    for (std::size_t s = first_site_[static_cast<std::size_t>(chunk)]; s < end_site(chunk); ++s) {
      const Block& block = *sites_[s].block;
      Tensors& tensors = flight.stamped.emplace_back(block.values.size(), no_tensor);
      if (block.input != no_value) tensors[block.input] = current;
      stamp(s, block.forward, tensors, micro_batch);
      current = block.output == no_value ? no_tensor : tensors[block.output];
    }
    flight.output = current;
    if (!train_) flight.stamped.clear();
  }

  void backward(int chunk, int micro_batch) {
    InFlight& flight = in_flight_.at({chunk, micro_batch});
    std::uint32_t gradient = flight.output_gradient;
    for (std::size_t s = end_site(chunk); s-- > first_site_[static_cast<std::size_t>(chunk)];) {
      const Block& block = *sites_[s].block;
      Tensors& tensors = flight.stamped[s - first_site_[static_cast<std::size_t>(chunk)]];
      if (block.output_gradient != no_value) tensors[block.output_gradient] = gradient;
      stamp(s, block.backward, tensors, micro_batch);
      gradient = block.input_gradient == no_value ? no_tensor : tensors[block.input_gradient];
      if (!context_.scenario->schedule.defer_weight_gradients) completed(s, micro_batch);
    }
    flight.input_gradient = gradient;
  }

  void weight(int chunk, int micro_batch) {
    InFlight& flight = in_flight_.at({chunk, micro_batch});
    for (std::size_t s = end_site(chunk); s-- > first_site_[static_cast<std::size_t>(chunk)];) {
      stamp(s, sites_[s].block->weight, flight.stamped[s - first_site_[static_cast<std::size_t>(chunk)]], micro_batch);
      completed(s, micro_batch);
    }
  }

  std::size_t end_site(int chunk) const { return first_site_[static_cast<std::size_t>(chunk) + 1]; }

  // Behind the last micro-batch's weight gradients of a site, the buckets that it completes are reduced.
  void completed(std::size_t site, int micro_batch) {
    if (!context_.scenario->overlap.grad_reduce || micro_batch + 1 != context_.plan->micro_batches) return;
    for (std::size_t b = 0; b < parameters_.buckets().size(); ++b) {
      if (parameters_.buckets()[b].first_site == site) parameters_.reduce(b);
    }
  }

  void exchange(const Action& action) {
    std::vector<Message> messages;
    std::vector<std::uint32_t> reads, writes;
    bool any_backward = false;
    std::string label;
    for (const PipelineTransfer& transfer : action.transfers) {
      any_backward |= transfer.backward;
      Message m;
      m.send = transfer.send;
      // Towards the next stage go outputs; from it come gradients of outputs.
      const bool at_output = transfer.send != transfer.backward;
      m.peer = builder_.peer({context_.module, Axis::pp, at_output ? 1 : -1});
      const int boundary = virtual_stage(transfer.chunk) - (at_output ? 0 : 1);
      m.tag = message_tag(boundary, transfer.micro_batch, transfer.backward);
      m.tensor = tensor_of(transfer);
      (transfer.send ? reads : writes).push_back(m.tensor);
      messages.push_back(m);
      if (!label.empty()) label += ", ";
      label += transfer.send ? "send " : "receive ";
      label += transfer.backward ? "backward" : "forward";
    }
    OpSpec spec;
    spec.kind = OpKind::point_to_point;
    spec.phase = any_backward ? Phase::backward_data : Phase::forward;
    spec.stream = context_.pipeline_stream;
    spec.module = context_.module;
    spec.label = label;
    const PipelineTransfer& first = action.transfers.front();
    builder_.append(body_, spec, reads, writes,
                    {-1, static_cast<std::int16_t>(first.micro_batch), static_cast<std::int16_t>(first.chunk)},
                    messages);
  }

  std::uint32_t tensor_of(const PipelineTransfer& transfer) {
    InFlight& flight = in_flight_[{transfer.chunk, transfer.micro_batch}];
    if (transfer.send) return transfer.backward ? flight.input_gradient : flight.output;
    TensorSpec spec = hidden_spec(context_);
    const Stage& stage = stage_of(transfer.chunk);
    int layer = stage.first_layer - 1;
    if (transfer.backward) {
      spec.name = "d(" + spec.name + ")";
      layer += stage.layers;
    }
    const std::uint32_t tensor =
        builder_.transient(body_, builder_.tensor_spec(spec), Category::boundary,
                           {static_cast<std::int16_t>(layer), static_cast<std::int16_t>(transfer.micro_batch), -1});
    return (transfer.backward ? flight.output_gradient : flight.input) = tensor;
  }

  // --- loss and the end of the step ---------------------------------------------------------------------------

  void begin_loss() {
    if (!has_head()) return;
    const TensorSpec spec = loss_spec(context_);
    loss_ = builder_.view(body_, builder_.tensor_spec(spec),
                          builder_.storage(body_, spec.bytes(), Category::activations, true), 0, {});
    OpSpec fill;
    fill.kind = OpKind::fill;
    fill.module = context_.module;
    fill.label = "zero loss";
    fill.phase = Phase::optimizer;
    const std::uint32_t writes[] = {loss_};
    builder_.append(body_, fill, {}, writes, {});
  }

  // The mean loss over all that share the tokens of the batch, for the log.
  void reduce_loss() {
    const AxisMask axes = loss_spec(context_).partial;
    if (!has_head() || axes == 0) return;
    OpSpec sum;
    sum.kind = OpKind::all_reduce;
    sum.phase = Phase::gradient_reduce;
    sum.stream = context_.data_stream;
    sum.module = context_.module;
    sum.group = builder_.group({axes == context_.dp_axis ? "dp" : "loss", context_.module, whole_axes(context_, axes)});
    sum.label = "loss all-reduce";
    TensorSpec spec = builder_.program().tensor_spec(body_, loss_);
    spec.partial = 0;
    const std::uint32_t reads[] = {loss_};
    const std::uint32_t writes[] = {
        builder_.view(body_, builder_.tensor_spec(spec), body_.tensors[loss_].storage, 0, {})};
    builder_.append(body_, sum, reads, writes, {});
  }

  void finish_step() {
    reduce_loss();
    if (!train_) return;
    const Scenario& scenario = *context_.scenario;
    if (!scenario.overlap.grad_reduce) {
      for (std::size_t b = 0; b < parameters_.buckets().size(); ++b) parameters_.reduce(b);
    }
    parameters_.reduce_tied();
    parameters_.step(stage_ == 0);
    if (!scenario.overlap.param_gather) parameters_.gather(true);
  }

  const ModuleContext& context_;
  ProgramBuilder& builder_;
  int stage_;
  bool train_;
  Body& body_;
  std::vector<std::size_t> first_site_;  // by chunk, and the end
  std::vector<Site> sites_;
  ParameterStore parameters_;
  std::map<Key, InFlight> in_flight_;
  std::map<std::tuple<Role, int>, std::uint32_t> externals_;
  std::uint32_t loss_ = no_tensor;
  std::vector<std::uint32_t> reads_, writes_;
};

}  // namespace

namespace {

// Under a causal mask contiguous shards of the sequence have different work: their ranks have bodies of their own.
bool work_depends_on_rank(const ModuleContext& context) {
  return context.ring() > 1 && context.partition() == Partition::contiguous &&
         context.shape().mask == AttentionMask::causal;
}

}  // namespace

Program lower(const Scenario& scenario, const Plan& plan, const InterruptFlag* interrupt) {
  ensure(plan.modules.size() == 1, "the lowering takes one module");
  ProgramBuilder builder;
  const ModulePlan& module = plan.modules[0];
  builder.program().grids.push_back(module.grid);
  ModuleContext context = make_context(builder, scenario, module);
  const int stages = module.grid.degree(Axis::pp);
  const int variants = work_depends_on_rank(context) ? context.ring() : 1;
  for (int variant = 0; variant < variants; ++variant) {
    if (variants > 1) context.sequence_index = variant;
    const ModuleBlocks blocks = make_blocks(builder, context);
    for (int stage = 0; stage < stages; ++stage) StageLowering(context, builder, blocks, stage).run(interrupt);
  }
  for (Body& body : builder.program().bodies) {
    check_interrupt(interrupt);
    if (scenario.overlap.tp)
      hoist_tensor_communication(builder.program(), body, context.tensor_stream, scenario.overlap.depth);
    const int ahead = context.tsp() > 1 ? context.layout().tsp.prefetch : scenario.overlap.cp ? 1 : 0;
    if (ahead == 0 || context.sequence_axes == 0) continue;
    hoist_visitors(builder.program(), body, context.context_stream, ahead);
    if (context.tsp() > 1) hoist_visitors(builder.program(), body, context.weight_stream, ahead);
  }
  const Axis ring = context.tsp() > 1 ? Axis::tsp : Axis::cp;
  std::vector<std::uint32_t>& body_of_rank = builder.program().body_of_rank;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const int variant = variants > 1 ? module.grid.coordinate(rank, ring) : 0;
    body_of_rank.push_back(static_cast<std::uint32_t>(variant * stages + module.grid.coordinate(rank, Axis::pp)));
  }
  return builder.take();
}

}  // namespace meshweave
