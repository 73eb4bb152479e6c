#include "sim/execute/in_process_backend.h"

#include <algorithm>
#include <limits>

#include "sim/base/error.h"
#include "sim/execute/synthetic.h"

namespace meshweave {

namespace {

bool ends_with(const std::string& text, std::string_view end) { return std::string_view(text).ends_with(end); }

// Copies between a part and the whole of which it is the `index`-th along a dimension.
template <class T>
void copy_part(const TensorSpec& part, std::size_t dimension, std::int64_t parts, std::int64_t index,
               std::vector<T>& part_values, std::vector<T>& whole_values, bool into_whole) {
  std::int64_t before = 1, behind = 1;
  for (std::size_t d = 0; d < part.rank; ++d) {
    if (d != dimension) (d < dimension ? before : behind) *= part.dimensions[d].size;
  }
  const std::int64_t run = part.dimensions[dimension].size * behind;
  for (std::int64_t i = 0; i < before; ++i) {
    const auto in_part = part_values.begin() + i * run;
    const auto in_whole = whole_values.begin() + (i * parts + index) * run;
    if (into_whole) {
      std::copy_n(in_part, run, in_whole);
    } else {
      std::copy_n(in_whole, run, in_part);
    }
  }
}

// Calls visit(first element in the storage, elements) for each run of a tensor's rows.
template <class Visit>
void each_run(const Geometry& at, std::int64_t storage_first, Visit visit) {
  const std::int64_t elements = at.spec->elements();
  if (at.spec->runs == 1) return visit(storage_first + at.offset / bytes_of(at.spec->dtype), elements);
  const std::int64_t row = elements / at.spec->dimensions[0].size;
  for (std::int64_t i = 0; i < at.spec->runs; ++i) {
    visit(storage_first + (at.first_row + i * at.run_stride) * row, at.run_rows() * row);
  }
}

}  // namespace

template <class T>
InProcessBackend<T>::InProcessBackend(const Program& program, const Communicators& communicators,
                                      const std::vector<Liveness>& liveness, const InProcessSettings& settings)
    : program_(program), communicators_(communicators), settings_(settings) {
  plan_memory(liveness);
  memory_.resize(static_cast<std::size_t>(program.ranks()));
  for (int rank = 0; rank < program.ranks(); ++rank) initialise(rank);
}

template <class T>
void InProcessBackend<T>::plan_memory(const std::vector<Liveness>& liveness) {
  for (std::size_t b = 0; b < program_.bodies.size(); ++b) {
    const Body& body = program_.bodies[b];
    std::vector<std::int64_t>& sizes = sizes_.emplace_back(body.storages.size());
    std::vector<std::int64_t> unit(body.storages.size(), 0);
    for (const Tensor& t : body.tensors) {
      const std::int64_t bytes = bytes_of(program_.tensor_specs[t.spec].dtype);
      ensure(unit[t.storage] == 0 || unit[t.storage] == bytes, "tensors of two types share a storage");
      unit[t.storage] = bytes;
    }
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      if (unit[s] != 0) sizes[s] = body.storages[s].bytes / unit[s];
    }
    plans_.push_back(plan_arena(sizes, liveness[b].lives, static_cast<std::uint32_t>(body.ops.size())));
  }
}

template <class T>
void InProcessBackend<T>::initialise(int rank) {
  const Body& body = body_of(rank);
  Memory& memory = memory_[static_cast<std::size_t>(rank)];
  const std::uint32_t body_id = program_.body_of_rank[static_cast<std::size_t>(rank)];
  memory.values.assign(static_cast<std::size_t>(plans_[body_id].size), std::numeric_limits<T>::quiet_NaN());
  memory.loaded.assign(body.storages.size(), -1);
  for (std::uint32_t s = 0; s < body.storages.size(); ++s) {
    if (!body.storages[s].persistent) continue;
    const auto [first, count] = range_of_storage(rank, s);
    std::fill_n(memory.values.begin() + first, count, T(0));
  }
  for (const ParameterViews& p : body.parameters) {
    const Geometry at = geometry_of(program_, body, rank, p.weight);
    const std::int64_t columns = at.spec->rank > 1 ? at.whole[1] : 0;
    const std::uint64_t key = synthetic_key(at.spec->name, p.module, body.tensors[p.weight].layer);
    const bool is_bias = ends_with(at.spec->name, ".bias");
    T* values = first_element(rank, p.weight, at);
    for (std::int64_t e = 0; e < at.spec->elements(); ++e) {
      values[e] = static_cast<T>(initial_value(settings_.seed, key, at.whole_index(e), columns, is_bias));
    }
  }
  // Main parameters, where they are apart, start as what they are kept of.
  for (const Op& op : body.ops) {
    if (program_.spec(op).kind != OpKind::adam || program_.writes(body, op).size() < 4) continue;
    set_values(rank, program_.writes(body, op)[0], values(rank, program_.writes(body, op)[3]));
  }
}

template <class T>
typename InProcessBackend<T>::Range InProcessBackend<T>::range_of_storage(int rank, std::uint32_t storage) const {
  const std::uint32_t body = program_.body_of_rank[static_cast<std::size_t>(rank)];
  return {plans_[body].address[storage], sizes_[body][storage]};
}

template <class T>
std::vector<typename InProcessBackend<T>::Range> InProcessBackend<T>::ranges_of_tensor(int rank,
                                                                                       std::uint32_t tensor) const {
  const Geometry at = geometry_of(program_, body_of(rank), rank, tensor);
  std::vector<Range> ranges;
  each_run(at, range_of_storage(rank, body_of(rank).tensors[tensor].storage).first,
           [&](std::int64_t first, std::int64_t count) { ranges.emplace_back(first, count); });
  return ranges;
}

template <class T>
T* InProcessBackend<T>::first_element(int rank, std::uint32_t tensor, const Geometry& at) {
  const std::int64_t first = range_of_storage(rank, body_of(rank).tensors[tensor].storage).first;
  return memory_[static_cast<std::size_t>(rank)].values.data() + first + at.offset / bytes_of(at.spec->dtype);
}

template <class T>
std::vector<T> InProcessBackend<T>::values(int rank, std::uint32_t tensor) const {
  const Geometry at = geometry_of(program_, body_of(rank), rank, tensor);
  const auto memory = memory_[static_cast<std::size_t>(rank)].values.begin();
  std::vector<T> result;
  result.reserve(static_cast<std::size_t>(at.spec->elements()));
  each_run(at, range_of_storage(rank, body_of(rank).tensors[tensor].storage).first,
           [&](std::int64_t first, std::int64_t count) {
             result.insert(result.end(), memory + first, memory + first + count);
           });
  return result;
}

template <class T>
void InProcessBackend<T>::set_values(int rank, std::uint32_t tensor, const std::vector<T>& values) {
  const Geometry at = geometry_of(program_, body_of(rank), rank, tensor);
  auto from = values.begin();
  each_run(at, range_of_storage(rank, body_of(rank).tensors[tensor].storage).first,
           [&](std::int64_t first, std::int64_t count) {
             std::copy_n(from, count, memory_[static_cast<std::size_t>(rank)].values.begin() + first);
             from += count;
           });
}

// Token ids and labels are there before the first op of the step that reads them.
template <class T>
void InProcessBackend<T>::load_tokens(const OpCall& call, std::uint32_t tensor, const Geometry& at) {
  const Tensor& t = body_of(call.rank).tensors[tensor];
  int& loaded = memory_[static_cast<std::size_t>(call.rank)].loaded[t.storage];
  if (loaded == call.step) return;
  loaded = call.step;
  const std::int64_t ahead = at.spec->content == Content::labels ? 1 : 0;
  T* values = first_element(call.rank, tensor, at);
  const std::int64_t batch = at.spec->dimensions[1].size;
  for (std::int64_t e = 0; e < at.spec->elements(); ++e) {
    const std::int64_t sample = t.micro_batch * at.whole[1] + at.start[1] + e % batch;
    values[e] = static_cast<T>(
        synthetic_token(settings_.seed, call.step, sample, at.whole_row(e / batch) + ahead, settings_.vocabulary));
  }
}

template <class T>
void InProcessBackend<T>::compute(const OpCall& call) {
  const Body& body = body_of(call.rank);
  const Op& op = body.ops[call.op];
  KernelCall<T> kernel;
  kernel.spec = &program_.spec(op);
  kernel.step = call.step;
  kernel.layer = op.layer;
  kernel.micro_batch = op.micro_batch;
  kernel.seed = settings_.seed;
  const auto reads = program_.reads(body, op);
  const auto writes = program_.writes(body, op);
  if (!writes.empty())
    kernel.coordinates = program_.grids[program_.tensor_spec(body, writes[0]).grid].coordinates(call.rank);
  std::vector<std::vector<T>> apart;  // pieces, whose rows do not follow each other
  apart.reserve(reads.size() + writes.size());
  const auto operand = [&](std::uint32_t tensor) {
    Operand<T> o;
    o.at = geometry_of(program_, body, call.rank, tensor);
    if (o.at.spec->runs > 1) {
      o.data = apart.emplace_back(values(call.rank, tensor)).data();
    } else {
      o.data = first_element(call.rank, tensor, o.at);
    }
    return o;
  };
  for (const std::uint32_t t : reads) {
    kernel.reads.push_back(operand(t));
    const Content content = kernel.reads.back().spec().content;
    if (content == Content::token_ids || content == Content::labels) load_tokens(call, t, kernel.reads.back().at);
  }
  const std::size_t read_apart = apart.size();
  for (const std::uint32_t t : writes) kernel.writes.push_back(operand(t));
  run_kernel(kernel);
  std::size_t next = read_apart;
  for (const std::uint32_t t : writes) {
    if (program_.tensor_spec(body, t).runs > 1) set_values(call.rank, t, apart[next++]);
  }
}

template <class T>
void InProcessBackend<T>::release(int rank, std::uint32_t storage) {
  const auto [first, count] = range_of_storage(rank, storage);
  std::fill_n(memory_[static_cast<std::size_t>(rank)].values.begin() + first, count,
              std::numeric_limits<T>::quiet_NaN());
}

template <class T>
void InProcessBackend<T>::post(const OpCall& call) {
  memory_[static_cast<std::size_t>(call.rank)].posted.push_back(call);
}

// Enters a posted communication; what it completes goes to `complete_`.
template <class T>
void InProcessBackend<T>::announce(const OpCall& call) {
  const Body& body = body_of(call.rank);
  const Op& op = body.ops[call.op];
  const OpSpec& spec = program_.spec(op);
  if (is_collective(spec.kind)) {
    const Communicators::Of& group = communicators_.by_group[spec.group];
    const std::uint32_t instance = group.instance_of[static_cast<std::size_t>(call.rank)];
    std::vector<OpCall>& come = gathering_[{spec.stream, spec.group, instance}];
    come.push_back(call);
    const std::span<const int> members = group.of(instance);
    if (come.size() < members.size()) return;
    const auto position = [&](const OpCall& c) { return std::find(members.begin(), members.end(), c.rank); };
    std::sort(come.begin(), come.end(), [&](const OpCall& a, const OpCall& b) { return position(a) < position(b); });
    complete_.push_back({std::move(come), {}, {}});
    come.clear();
    return;
  }
  const auto messages = program_.messages(body, op);
  open_messages_[{call.rank, call.op}] = static_cast<int>(messages.size());
  for (const Message& m : messages) {
    const int peer = program_.peer_rank(call.rank, m.peer);
    const MessageKey key = m.send ? MessageKey{call.rank, peer, m.tag} : MessageKey{peer, call.rank, m.tag};
    auto& others = m.send ? receivers_ : senders_;
    const MessageEnd own{call, m.tensor};
    if (const auto other = others.find(key); other != others.end()) {
      complete_.push_back({{}, m.send ? own : other->second, m.send ? other->second : own});
      others.erase(other);
    } else {
      (m.send ? senders_ : receivers_)[key] = own;
    }
  }
}

template <class T>
void InProcessBackend<T>::poll(std::vector<OpCall>& ended) {
  for (Memory& memory : memory_) {
    for (const OpCall& call : memory.posted) announce(call);
    memory.posted.clear();
  }
  if (!settings_.delay) {
    for (const Transfer& transfer : complete_) move(transfer, ended);
    complete_.clear();
    return;
  }
  const auto draw = [&](std::size_t below) {
    return static_cast<std::size_t>(random_bits(settings_.delay_seed, stream_key("delay"), drawn_++) % below);
  };
  // At least one communication ends, if any can: a round makes progress.
  std::size_t moves = complete_.empty() ? 0 : 1 + draw(complete_.size());
  for (; !complete_.empty() && (moves > 0 || ended.empty()); moves -= moves > 0) {
    const std::size_t chosen = draw(complete_.size());
    move(complete_[chosen], ended);
    complete_.erase(complete_.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
}

template <class T>
void InProcessBackend<T>::move(const Transfer& transfer, std::vector<OpCall>& ended) {
  if (!transfer.members.empty()) {
    move_collective(transfer.members);
    ended.insert(ended.end(), transfer.members.begin(), transfer.members.end());
    return;
  }
  set_values(transfer.to.call.rank, transfer.to.tensor, values(transfer.from.call.rank, transfer.from.tensor));
  end_message(transfer.from.call, ended);
  end_message(transfer.to.call, ended);
}

template <class T>
void InProcessBackend<T>::end_message(const OpCall& call, std::vector<OpCall>& ended) {
  const auto open = open_messages_.find({call.rank, call.op});
  if (--open->second > 0) return;
  open_messages_.erase(open);
  ended.push_back(call);
}

template <class T>
void InProcessBackend<T>::move_collective(const std::vector<OpCall>& members) {
  const std::size_t operands = spec_of(members.front()).writes.size();
  for (std::size_t i = 0; i < operands; ++i) move_operand(members, i);
}

template <class T>
void InProcessBackend<T>::move_operand(const std::vector<OpCall>& members, std::size_t operand) {
  std::vector<std::vector<T>> inputs;
  std::vector<const TensorSpec*> input_specs, output_specs;
  std::vector<std::uint32_t> outputs;
  for (const OpCall& call : members) {
    const Body& body = body_of(call.rank);
    const Op& op = body.ops[call.op];
    const std::uint32_t input = program_.reads(body, op)[operand];
    inputs.push_back(values(call.rank, input));
    outputs.push_back(program_.writes(body, op)[operand]);
    input_specs.push_back(&program_.tensor_spec(body, input));
    output_specs.push_back(&program_.tensor_spec(body, outputs.back()));
  }
  const OpSpec& spec = spec_of(members.front());
  const bool adds = spec.attributes.accumulates;
  const auto count = static_cast<std::int64_t>(members.size());
  const std::size_t d = spec.attributes.dimension;
  const auto reduced = [&] {
    std::vector<T> sum = inputs[0];
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      ensure(inputs[i].size() == sum.size(), "members of a collective bring different sizes");
      for (std::size_t e = 0; e < sum.size(); ++e) {
        sum[e] = spec.attributes.reduce == ReduceOp::max ? std::max(sum[e], inputs[i][e]) : sum[e] + inputs[i][e];
      }
    }
    return sum;
  };
  const auto store = [&](std::size_t i, std::vector<T> result) {
    if (adds) {
      const std::vector<T> before = values(members[i].rank, outputs[i]);
      for (std::size_t e = 0; e < result.size(); ++e) result[e] = before[e] + result[e];
    }
    set_values(members[i].rank, outputs[i], result);
  };
  const auto store_all = [&](const std::vector<T>& result) {
    for (std::size_t i = 0; i < members.size(); ++i) store(i, result);
  };
  // The part of `whole` that is the `index`-th along `dimension`, as `part` has it.
  const auto part_of = [&](const TensorSpec& part, std::size_t dimension, std::size_t index, std::vector<T>& whole) {
    std::vector<T> own(whole.size() / members.size());
    copy_part(part, dimension, count, static_cast<std::int64_t>(index), own, whole, false);
    return own;
  };
  switch (spec.kind) {
    case OpKind::all_reduce: return store_all(reduced());
    case OpKind::reduce: {
      const auto root = static_cast<std::size_t>(spec.attributes.root);
      return store(root, reduced());
    }
    case OpKind::broadcast: return store_all(inputs[static_cast<std::size_t>(spec.attributes.root)]);
    case OpKind::all_gather: {
      std::vector<T> whole(inputs[0].size() * members.size());
      for (std::size_t i = 0; i < members.size(); ++i)
        copy_part(*input_specs[i], d, count, static_cast<std::int64_t>(i), inputs[i], whole, true);
      return store_all(whole);
    }
    case OpKind::reduce_scatter: {
      std::vector<T> whole = reduced();
      for (std::size_t i = 0; i < members.size(); ++i) store(i, part_of(*output_specs[i], d, i, whole));
      return;
    }
    case OpKind::all_to_all: {
      // Member i's j-th part along `dimension` becomes the i-th along `joined` at member j.
      const std::size_t joined = spec.attributes.joined;
      for (std::size_t j = 0; j < members.size(); ++j) {
        TensorSpec part = *output_specs[j];
        part.dimensions[joined].size /= count;
        std::vector<T> own(inputs[0].size());
        for (std::size_t i = 0; i < members.size(); ++i) {
          std::vector<T> piece = part_of(part, d, j, inputs[i]);
          copy_part(part, joined, count, static_cast<std::int64_t>(i), piece, own, true);
        }
        store(j, std::move(own));
      }
      return;
    }
    default: bug("no collective: " + std::string(name_of(spec.kind)));
  }
}

template class InProcessBackend<float>;
template class InProcessBackend<double>;

}  // namespace meshweave
