#include "sim/lower/parameters.h"

#include <algorithm>

namespace meshweave {

namespace {

bool sharded_over(const TensorSpec& spec, AxisMask axes) {
  return std::any_of(spec.dimensions.begin(), spec.dimensions.end(),
                     [&](const Dimension& d) { return (d.sharded_over & axes) != 0; });
}

AxisMask without(AxisMask mask, AxisMask axes) { return static_cast<AxisMask>(mask & ~axes); }

}  // namespace

ParameterStore::ParameterStore(const ModuleContext& context, ProgramBuilder& builder, Body& body,
                               const std::vector<Site>& sites)
    : context_(context), builder_(builder), body_(body), train_(context.scenario->pass == Pass::train) {
  const int dp = context.plan->grid.degree(Axis::dp);
  const int instances = context.layout().optimizer_instances;
  std::vector<AxisPattern> all = whole_axes(context, context.data_axes);
  int replicas = 1;
  for (const AxisPattern& p : all) replicas *= p.count;
  sharded_ = train_ && context.layout().zero == 1 && replicas / instances > 1;
  shards_ = sharded_ ? replicas / instances : 1;
  if (train_ && replicas > 1) {
    const char* name = context.data_axes == context.dp_axis ? "dp" : "dp cp";
    dp_group_ = builder.group({name, context.grid, all});
    if (sharded_) {
      shard_patterns_ = all;
      if (instances > 1) {
        shard_patterns_.back().count = dp / instances;  // dp is the last axis
        instance_group_ = builder.group({"dp instances", context.grid, {{Axis::dp, dp / instances, instances}}});
      }
      std::erase_if(shard_patterns_, [](const AxisPattern& p) { return p.count == 1; });
      shard_group_ =
          instances == 1 ? dp_group_ : builder.group({std::string(name) + " shard", context.grid, shard_patterns_});
    }
  }
  for (const AxisPattern& p : shard_patterns_) shard_axes_ = static_cast<AxisMask>(shard_axes_ | mask_of(p.axis));
  if (sharded_) own_shard_ = builder_.shard({context.grid, shard_patterns_});
  model_axis_ = static_cast<AxisMask>(context.tp_axis | context.tsp_axis);
  for (const Site& site : sites) {
    weights_.emplace_back(site.block->parameters.size());
    gradients_.emplace_back(site.block->parameters.size());
  }

  const std::int64_t fixed = context.scenario->optimizer.bucket_parameters;
  const std::int64_t limit = fixed > 0 ? fixed : std::max<std::int64_t>(40'000'000, 1'000'000 * std::int64_t{dp});
  struct Open {
    std::vector<Item> items;
    std::int64_t parameters = 0;
  };
  Open open[2];  // sharded and replicated parameters
  const auto close = [&](Open& o) {
    if (!o.items.empty()) make_bucket(o.items, sites);
    o = {};
  };
  for (std::size_t s = sites.size(); s-- > 0;) {
    const Block& block = *sites[s].block;
    for (std::size_t p = block.parameters.size(); p-- > 0;) {
      const Parameter& parameter = block.parameters[p];
      const Item item{s, static_cast<std::uint32_t>(p)};
      if (parameter.tied) {
        if (!share_tied(item)) make_bucket({item}, sites);
        continue;
      }
      Open& o = open[is_replicated(parameter.spec) ? 1 : 0];
      o.items.push_back(item);
      o.parameters += parameter.spec.elements();
      if (o.parameters >= limit) close(o);
    }
    if (s == 0 || sites[s - 1].chunk != sites[s].chunk) {
      close(open[0]);
      close(open[1]);
    }
  }
}

// Over the ranks that share the weights.
bool ParameterStore::is_replicated(const TensorSpec& spec) const {
  return model_axis_ != 0 && !sharded_over(spec, model_axis_);
}

// Embedding and head on one rank hold one table.
bool ParameterStore::share_tied(const Item& item) {
  for (Bucket& bucket : buckets_) {
    if (!bucket.tied) continue;
    weights_[item.site][item.parameter] = weights_[bucket.first_site][bucket.tied_parameter];
    gradients_[item.site][item.parameter] = gradients_[bucket.first_site][bucket.tied_parameter];
    bucket.first_site = item.site;
    bucket.tied_parameter = item.parameter;
    return true;
  }
  return false;
}

std::uint32_t ParameterStore::flat(const Bucket& bucket, const std::string& name, std::int64_t size, DType dtype,
                                   AxisMask partial, std::uint32_t storage, bool shard) {
  const AxisMask shards = shard ? shard_axes_ : AxisMask{0};
  const AxisMask axes = static_cast<AxisMask>(shards | (bucket.replicated ? AxisMask{0} : model_axis_));
  const std::uint32_t spec = builder_.tensor_spec(make_spec(name, {{size, axes}}, dtype, partial, context_.grid));
  return builder_.view(body_, spec, storage, 0, {}, shard ? own_shard_ : no_shard);
}

void ParameterStore::make_bucket(const std::vector<Item>& items, const std::vector<Site>& sites) {
  const Precision& precision = context_.scenario->precision;
  const auto parameter_of = [&](const Item& item) -> const Parameter& {
    return sites[item.site].block->parameters[item.parameter];
  };
  Bucket bucket;
  bucket.chunk = sites[items[0].site].chunk;
  bucket.tied = parameter_of(items[0]).tied;
  bucket.tied_parameter = items[0].parameter;
  bucket.replicated = is_replicated(parameter_of(items[0]).spec);
  bucket.first_site = items.back().site;
  for (const Item& item : items) bucket.parameters += parameter_of(item).spec.elements();
  bucket.parameters = (bucket.parameters + shards_ - 1) / shards_ * shards_;
  const std::string name = "bucket " + std::to_string(buckets_.size());

  const std::uint32_t weight_storage =
      builder_.storage(body_, bucket.parameters * bytes_of(precision.parameters), Category::parameters, true);
  bucket.weights =
      flat(bucket, "parameters " + name, bucket.parameters, precision.parameters, 0, weight_storage, false);
  std::uint32_t gradient_storage = 0;
  if (train_) {
    const Parameter& first = parameter_of(items[0]);
    gradient_storage =
        builder_.storage(body_, bucket.parameters * bytes_of(precision.main_gradients), Category::main_gradients, true);
    bucket.gradients = flat(bucket, "gradients " + name, bucket.parameters, precision.main_gradients,
                            sites[items[0].site].block->spec(first.main_gradient).partial, gradient_storage, false);
    bucket.reduced = bucket.gradients;
    const std::int64_t own = bucket.parameters / shards_;
    bucket.weight_shard =
        sharded_ ? flat(bucket, "parameters " + name + " shard", own, precision.parameters, 0, weight_storage, true)
                 : bucket.weights;
    const auto state = [&](const char* what, DType dtype) {
      const std::uint32_t storage = builder_.storage(body_, own * bytes_of(dtype), Category::optimizer_state, true);
      TensorSpec spec = builder_.program().tensor_spec(body_, bucket.weight_shard);
      spec.name = what + (" " + name);
      spec.dtype = dtype;
      bucket.state.push_back(builder_.view(body_, builder_.tensor_spec(spec), storage, 0, {}));
    };
    if (precision.main_parameters != precision.parameters) state("main parameters", precision.main_parameters);
    state("first moment", precision.moments);
    state("second moment", precision.moments);
    const auto workspace =
        static_cast<std::int64_t>(static_cast<double>(own) * precision.workspace_bytes_per_parameter);
    if (workspace > 0) builder_.storage(body_, workspace, Category::optimizer_state, true);
  }

  std::int64_t offset = 0;  // in parameters
  for (const Item& item : items) {
    const Block& block = *sites[item.site].block;
    const Parameter& parameter = block.parameters[item.parameter];
    const Place where{sites[item.site].layer, -1, -1};
    weights_[item.site][item.parameter] = builder_.view(body_, block.values[parameter.value].tensor_spec,
                                                        weight_storage, offset * bytes_of(precision.parameters), where);
    if (train_) {
      gradients_[item.site][item.parameter] =
          builder_.view(body_, block.values[parameter.main_gradient].tensor_spec, gradient_storage,
                        offset * bytes_of(precision.main_gradients), where);
    }
    body_.parameters.push_back(
        {weights_[item.site][item.parameter], gradients_[item.site][item.parameter], context_.module});
    offset += parameter.spec.elements();
  }
  buckets_.push_back(std::move(bucket));
}

OpSpec ParameterStore::op(OpKind kind, Phase phase, const std::string& label) const {
  OpSpec spec;
  spec.kind = kind;
  spec.phase = phase;
  spec.module = context_.module;
  spec.label = label;
  return spec;
}

void ParameterStore::zero_gradients() {
  for (const Bucket& bucket : buckets_) {
    const std::uint32_t written[] = {bucket.gradients};
    builder_.append(body_, op(OpKind::fill, Phase::optimizer, "zero gradients"), {}, written, {});
  }
}

std::uint32_t ParameterStore::collective(OpKind kind, const std::string& label, std::uint16_t group, std::uint32_t read,
                                         TensorSpec written, std::uint16_t shard, int chunk) {
  OpSpec spec = op(kind, Phase::gradient_reduce, label);
  spec.stream = context_.data_stream;
  spec.group = group;
  const Tensor source = body_.tensors[read];
  const std::uint32_t result =
      builder_.view(body_, builder_.tensor_spec(written), source.storage, source.offset, {}, shard);
  const std::uint32_t reads[] = {read};
  const std::uint32_t writes[] = {result};
  builder_.append(body_, spec, reads, writes, {-1, -1, chunk});
  return result;
}

void ParameterStore::all_reduce(Bucket& bucket, const char* label, std::uint16_t group, AxisMask axes) {
  TensorSpec summed = builder_.program().tensor_spec(body_, bucket.reduced);
  summed.partial = without(summed.partial, axes);
  const std::uint16_t shard = body_.tensors[bucket.reduced].shard;
  bucket.reduced = collective(OpKind::all_reduce, label, group, bucket.reduced, summed, shard, bucket.chunk);
}

void ParameterStore::reduce(std::size_t index) {
  Bucket& bucket = buckets_[index];
  if (bucket.replicated && context_.sequence_parallel()) {
    all_reduce(bucket, "replicated gradient all-reduce", context_.tp_group, context_.tp_axis);
  }
  if (bucket.replicated && context_.tsp_axis != 0) {
    all_reduce(bucket, "replicated gradient all-reduce", context_.sequence_group, context_.tsp_axis);
  }
  if (sharded_) {
    TensorSpec shard = builder_.program().tensor_spec(body_, bucket.reduced);
    shard.name += " shard";
    shard.dimensions[0].size /= shards_;
    shard.dimensions[0].sharded_over = static_cast<AxisMask>(shard.dimensions[0].sharded_over | shard_axes_);
    // Behind an instance's own reduce-scatter the sum over the instances is still missing.
    shard.partial = without(shard.partial, instance_group_ == no_group ? context_.data_axes
                                                                       : without(context_.data_axes, context_.dp_axis));
    bucket.reduced = collective(OpKind::reduce_scatter, "gradient reduce-scatter", shard_group_, bucket.reduced, shard,
                                own_shard_, bucket.chunk);
    if (instance_group_ != no_group) {
      all_reduce(bucket, "gradient all-reduce over instances", instance_group_, context_.dp_axis);
    }
  } else if (context_.data_axes != 0) {
    all_reduce(bucket, "gradient all-reduce", dp_group_, context_.data_axes);
  }
}

void ParameterStore::reduce_tied() {
  if (context_.pp_axis == 0) return;
  const int stages = context_.plan->grid.degree(Axis::pp);
  for (Bucket& bucket : buckets_) {
    if (!bucket.tied) continue;
    const std::uint16_t group = builder_.group({"embedding", context_.grid, {{Axis::pp, stages - 1, 2}}});
    all_reduce(bucket, "tied embedding gradient all-reduce", group, context_.pp_axis);
  }
}

// Σ of squares over all ranks that hold different parameters; the host reads it.
std::uint32_t ParameterStore::gradient_norm(bool count_tied) {
  std::vector<std::uint32_t> reads;
  for (const Bucket& bucket : buckets_) {
    if (!bucket.tied || count_tied) reads.push_back(bucket.reduced);
  }
  Group group{"norm", context_.grid, whole_axes(context_, model_axis_)};
  group.patterns.insert(group.patterns.end(), shard_patterns_.begin(), shard_patterns_.end());
  for (const AxisPattern& p : whole_axes(context_, context_.pp_axis)) group.patterns.push_back(p);
  TensorSpec spec = make_spec("gradient norm²", {{1, 0}}, DType::fp32, group.axes(), context_.grid);
  spec.content = Content::squared_norm;
  const std::uint32_t own = builder_.transient(body_, builder_.tensor_spec(spec), Category::workspace, {});
  OpSpec norm = op(OpKind::gradient_norm, Phase::optimizer, "gradient norm");
  norm.sync = group.patterns.empty();
  const std::uint32_t writes[] = {own};
  builder_.append(body_, norm, reads, writes, {});
  if (group.patterns.empty()) return own;
  OpSpec sum = op(OpKind::all_reduce, Phase::optimizer, "gradient norm all-reduce");
  sum.stream = context_.data_stream;
  sum.group = builder_.group(group);
  sum.sync = true;
  spec.partial = 0;
  const std::uint32_t whole = builder_.view(body_, builder_.tensor_spec(spec), body_.tensors[own].storage, 0, {});
  const std::uint32_t sum_reads[] = {own};
  const std::uint32_t sum_writes[] = {whole};
  builder_.append(body_, sum, sum_reads, sum_writes, {});
  return whole;
}

void ParameterStore::step(bool count_tied) {
  if (context_.scenario->optimizer.clip > 0) {
    std::vector<std::uint32_t> reads, writes;
    reads.push_back(gradient_norm(count_tied));
    for (const Bucket& bucket : buckets_) {
      reads.push_back(bucket.reduced);
      writes.push_back(bucket.reduced);
    }
    OpSpec clip = op(OpKind::clip, Phase::optimizer, "clip gradients");
    clip.attributes.limit = context_.scenario->optimizer.clip;
    builder_.append(body_, clip, reads, writes, {});
  }
  const bool separate = context_.scenario->precision.main_parameters != context_.scenario->precision.parameters;
  for (const Bucket& bucket : buckets_) {
    std::vector<std::uint32_t> reads, writes;
    reads.push_back(bucket.reduced);
    if (!separate) reads.push_back(bucket.weight_shard);
    for (std::uint32_t state : bucket.state) {
      reads.push_back(state);
      writes.push_back(state);
    }
    writes.push_back(bucket.weight_shard);
    OpSpec adam = op(OpKind::adam, Phase::optimizer, "adam");
    adam.attributes.adam = context_.scenario->optimizer.adam;
    builder_.append(body_, adam, reads, writes, {});
  }
}

void ParameterStore::gather(bool blocking) {
  if (!sharded_) return;
  OpSpec spec = op(OpKind::all_gather, Phase::parameter_gather, "parameter all-gather");
  spec.stream = context_.data_stream;
  spec.group = shard_group_;
  for (std::size_t i = buckets_.size(); i-- > 0;) {
    const Bucket& bucket = buckets_[i];
    spec.sync = blocking && i == 0;
    const std::uint32_t reads[] = {bucket.weight_shard};
    const std::uint32_t writes[] = {bucket.weights};
    builder_.append(body_, spec, reads, writes, {-1, -1, bucket.chunk});
  }
}

}  // namespace meshweave
