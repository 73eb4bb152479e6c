#include "sim/lower/stage_lowering.h"

#include "sim/base/error.h"
#include "sim/lower/transformer.h"

namespace meshweave {

StageLowering::StageLowering(const ModuleContext& context, ProgramBuilder& builder, Body& body,
                             const ModuleBlocks& blocks, int pp)
    : context_(context),
      builder_(builder),
      body_(body),
      pp_(pp),
      train_(context.scenario->pass == Pass::train),
      sites_(make_sites(blocks)),
      parameters_(context, builder, body, sites_) {}

const StagePart& StageLowering::part_of(int chunk) const {
  const StagePart* part = context_.plan->stage(pp_, chunk).part_of(context_.plan->module);
  ensure(part != nullptr, "a stage holds nothing of the module");
  return *part;
}

std::vector<Site> StageLowering::make_sites(const ModuleBlocks& blocks) {
  std::vector<Site> sites;
  for (int chunk = 0; chunk < context_.plan->placement.chunks(); ++chunk) {
    const StagePart& part = part_of(chunk);
    first_site_.push_back(sites.size());
    const int last = part.first_layer + part.layers;
    if (part.embedding) sites.push_back({&blocks.embedding, -1, -1, chunk});
    for (int layer = part.first_layer; layer < last; ++layer) sites.push_back({&blocks.layer, layer, layer - 1, chunk});
    if (part.head) sites.push_back({&blocks.head, -1, last - 1, chunk});
  }
  first_site_.push_back(sites.size());
  return sites;
}

void StageLowering::begin_step() {
  if (context_.scenario->overlap.param_gather) parameters_.gather(false);
  if (train_) parameters_.zero_gradients();
  begin_loss();
}

void StageLowering::finish_step() {
  reduce_loss();
  if (!train_) return;
  const Scenario& scenario = *context_.scenario;
  if (!scenario.overlap.grad_reduce) {
    for (std::size_t b = 0; b < parameters_.buckets().size(); ++b) parameters_.reduce(b);
  }
  parameters_.reduce_tied();
  parameters_.step(part_of(0).embedding);
  if (!scenario.overlap.param_gather) parameters_.gather(true);
}

std::uint32_t StageLowering::external(const BlockValue& value, int micro_batch) {
  if (value.role == Role::loss) return loss_;
  const auto key = std::tuple(value.role, micro_batch);
  if (const auto it = externals_.find(key); it != externals_.end()) return it->second;
  const std::uint32_t storage = builder_.storage(body_, value.spec.bytes(), Category::activations, true);
  const std::uint32_t tensor = builder_.view(body_, value.tensor_spec, storage, 0, {-1, micro_batch, -1});
  externals_.emplace(key, tensor);
  return tensor;
}

std::uint32_t StageLowering::resolve(std::size_t site_index, Tensors& tensors, Value v, const Place& where) {
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
  if (value.of_input) place.layer = site.input_layer;
  if (value.alias != no_value) {
    const Tensor shared = body_.tensors[resolve(site_index, tensors, value.alias, where)];
    return tensors[v] =
               builder_.view(body_, value.tensor_spec, shared.storage, shared.offset + value.alias_offset, place);
  }
  return tensors[v] = builder_.transient(body_, value.tensor_spec, value.category, place);
}

void StageLowering::stamp(std::size_t site_index, const std::vector<BlockOp>& ops, Tensors& tensors, int micro_batch) {
  const Site& site = sites_[site_index];
  const Place where{site.layer, micro_batch, site.chunk};
  for (const BlockOp& op : ops) {
    reads_.clear();
    writes_.clear();
    for (Value v : op.reads) reads_.push_back(resolve(site_index, tensors, v, where));
    for (Value v : op.writes) writes_.push_back(resolve(site_index, tensors, v, where));
    builder_.append(body_, op.op_spec, reads_, writes_, where, messages(op, ops, where));
  }
}

std::vector<Message> StageLowering::messages(const BlockOp& op, const std::vector<BlockOp>& ops,
                                             const Place& where) const {
  std::vector<Message> all;
  if (op.spec.kind != OpKind::point_to_point) return all;
  const auto index = static_cast<std::size_t>(&op - ops.data()) << 1 | (op.spec.phase == Phase::forward ? 0u : 1u);
  const auto add = [&](bool send, std::uint8_t peer, const std::vector<std::uint32_t>& tensors) {
    ensure(index < 1u << 20 && tensors.size() <= 16, "a block has more messages along a ring than tags tell apart");
    for (std::size_t i = 0; i < tensors.size(); ++i)
      all.push_back({send, peer, ring_tag(context_.module, where.layer, where.micro_batch, index, i), tensors[i]});
  };
  add(true, op.send_to, reads_);
  add(false, op.receive_from, writes_);
  return all;
}

void StageLowering::forward(int chunk, int micro_batch) {
  InFlight& flight = in_flight_[{chunk, micro_batch}];
  std::uint32_t current = flight.input;
  for (std::size_t s = first_site(chunk); s < end_site(chunk); ++s) {
    const Block& block = *sites_[s].block;
    Tensors& tensors = flight.stamped.emplace_back(block.values.size(), no_tensor);
    if (block.input != no_value) tensors[block.input] = current;
    stamp(s, block.forward, tensors, micro_batch);
    current = block.output == no_value ? no_tensor : tensors[block.output];
  }
  flight.output = current;
  if (!train_) flight.stamped.clear();
}

void StageLowering::backward(int chunk, int micro_batch) {
  InFlight& flight = in_flight_.at({chunk, micro_batch});
  std::uint32_t gradient = flight.output_gradient;
  for (std::size_t s = end_site(chunk); s-- > first_site(chunk);) {
    const Block& block = *sites_[s].block;
    Tensors& tensors = flight.stamped[s - first_site(chunk)];
    if (block.output_gradient != no_value) tensors[block.output_gradient] = gradient;
    stamp(s, block.backward, tensors, micro_batch);
    gradient = block.input_gradient == no_value ? no_tensor : tensors[block.input_gradient];
    if (!context_.scenario->schedule.defer_weight_gradients) completed(s, micro_batch);
  }
  flight.input_gradient = gradient;
}

void StageLowering::weight(int chunk, int micro_batch) {
  InFlight& flight = in_flight_.at({chunk, micro_batch});
  for (std::size_t s = end_site(chunk); s-- > first_site(chunk);) {
    stamp(s, sites_[s].block->weight, flight.stamped[s - first_site(chunk)], micro_batch);
    completed(s, micro_batch);
  }
}

// Behind the last micro-batch's weight gradients of a site, the buckets that it completes are reduced.
void StageLowering::completed(std::size_t site, int micro_batch) {
  if (!context_.scenario->overlap.grad_reduce || micro_batch + 1 != context_.plan->micro_batches) return;
  for (std::size_t b = 0; b < parameters_.buckets().size(); ++b) {
    if (parameters_.buckets()[b].first_site == site) parameters_.reduce(b);
  }
}

std::uint32_t StageLowering::to_send(int chunk, int micro_batch, bool backward) const {
  const InFlight& flight = in_flight_.at({chunk, micro_batch});
  return backward ? flight.input_gradient : flight.output;
}

std::uint32_t StageLowering::receive(int chunk, int micro_batch, bool backward) {
  InFlight& flight = in_flight_[{chunk, micro_batch}];
  TensorSpec spec = hidden_spec(context_);
  const StagePart& part = part_of(chunk);
  int layer = part.first_layer - 1;
  if (backward) {
    spec.name = "d(" + spec.name + ")";
    layer += part.layers;
  }
  const Place where{layer, micro_batch, -1};
  const std::uint32_t tensor = builder_.transient(body_, builder_.tensor_spec(spec), Category::boundary, where);
  return (backward ? flight.output_gradient : flight.input) = tensor;
}

void StageLowering::begin_loss() {
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
void StageLowering::reduce_loss() {
  const AxisMask axes = loss_spec(context_).partial;
  if (!has_head() || axes == 0) return;
  OpSpec sum;
  sum.kind = OpKind::all_reduce;
  sum.phase = Phase::gradient_reduce;
  sum.stream = context_.data_stream;
  sum.module = context_.module;
  sum.group = builder_.group({axes == context_.dp_axis ? "dp" : "loss", context_.grid, whole_axes(context_, axes)});
  sum.label = "loss all-reduce";
  TensorSpec spec = builder_.program().tensor_spec(body_, loss_);
  spec.partial = 0;
  const std::uint32_t reads[] = {loss_};
  const std::uint32_t writes[] = {
      builder_.view(body_, builder_.tensor_spec(spec), body_.tensors[loss_].storage, 0, {})};
  builder_.append(body_, sum, reads, writes, {});
}

}  // namespace meshweave
