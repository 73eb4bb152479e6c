#include "sim/report/build_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/error.h"
#include "sim/cost/costs.h"
#include "sim/program/work.h"
#include "sim/report/partners.h"

namespace meshweave {
namespace {

std::string operand_text(const Program& program, const std::vector<std::uint32_t>& operands) {
  std::string text;
  for (const std::uint32_t id : operands) {
    const TensorSpec& spec = program.tensor_specs[id];
    if (!text.empty()) text += ", ";
    text += spec.name + '[';
    for (int d = 0; d < spec.rank; ++d) {
      text += fmt::format("{}{}", d == 0 ? "" : ",", spec.dimensions[static_cast<std::size_t>(d)].size);
    }
    text += fmt::format("] {}", name_of(spec.dtype));
  }
  return text;
}

std::string module_name(const Scenario& scenario, std::size_t module) {
  return module < num_vertices(scenario.model) ? scenario.model[module].name : std::string();
}

std::vector<TraceOp> op_table(const RunView& run) {
  const Program& program = run.program;
  std::vector<TraceOp> ops;
  for (const OpSpec& spec : program.op_specs) {
    TraceOp op;
    op.label = spec.label;
    op.kind = name_of(spec.kind);
    op.phase = name_of(spec.phase);
    op.module = module_name(run.scenario, spec.module);
    if (spec.group != no_group) op.group = program.groups[spec.group].name;
    op.shapes = operand_text(program, spec.reads) + " -> " + operand_text(program, spec.writes);
    if (is_communication(spec.kind)) {
      op.bytes = static_cast<double>(std::max(input_bytes(program, spec), output_bytes(program, spec)));
    } else {
      const Work work = work_of(program, spec);
      op.flops = work.flops;
      op.bytes = work.bytes;
    }
    CostOrigin origin = explain_cost(program, run.scenario, spec);
    op.cost = std::move(origin.text);
    op.source = std::move(origin.source);
    ops.push_back(std::move(op));
  }
  return ops;
}

std::string rank_label(const Program& program, int rank) {
  std::string label;
  for (std::size_t m = 0; m < program.grid_of_module.size(); ++m) {
    const ProcessGrid& grid = program.module_grid(m);
    if (!grid.contains(rank)) continue;
    if (!label.empty()) label += " / ";
    label += grid.label(rank);
  }
  return label;
}

class TraceBuilder {
 public:
  TraceBuilder(const RunView& run, const TraceRequest& request)
      : run_(run), request_(request), partners_(run.program) {}

  Trace build(std::string_view tool) {
    choose_ranks();
    fill_tables(tool);
    choose_origin();
    for (std::size_t r = 0; r < shown_.size(); ++r) add_slices(r);
    for (std::size_t r = 0; r < shown_.size(); ++r) link_slices(r);
    for (std::size_t r = 0; r < shown_.size(); ++r) add_memory(r);
    if (request_.window) cut_to_window();
    return std::move(trace_);
  }

 private:
  std::size_t class_of(int rank) const { return run_.classes.class_of[static_cast<std::size_t>(rank)]; }
  const std::vector<Slice>& slices_of(int rank) const { return run_.replay.timelines[class_of(rank)].slices; }
  std::size_t body_index(int rank) const { return run_.program.body_of_rank[static_cast<std::size_t>(rank)]; }

  void choose_ranks() {
    if (request_.all_ranks) {
      shown_.resize(static_cast<std::size_t>(run_.program.ranks()));
      std::iota(shown_.begin(), shown_.end(), 0);
    } else {
      shown_ = request_.ranks.empty() ? run_.classes.representative : request_.ranks;
      std::sort(shown_.begin(), shown_.end());
      shown_.erase(std::unique(shown_.begin(), shown_.end()), shown_.end());
    }
    index_of_rank_.assign(static_cast<std::size_t>(run_.program.ranks()), no_index);
    for (std::size_t i = 0; i < shown_.size(); ++i) {
      index_of_rank_[static_cast<std::size_t>(shown_[i])] = static_cast<std::uint32_t>(i);
    }
  }

  void fill_tables(std::string_view tool) {
    const Scenario& scenario = run_.scenario;
    TraceProvenance& from = trace_.provenance;
    from.tool = tool;
    from.executor = name_of(run_.executor);
    from.name = scenario.name;
    from.scenario = scenario.file;
    from.seed = static_cast<std::int64_t>(scenario.seed);
    from.inputs = scenario.inputs;
    from.resolved = scenario.resolved_json;
    const std::size_t ranks = static_cast<std::size_t>(run_.program.ranks());
    if (shown_.size() < ranks) from.left_out = fmt::format("{} of {} ranks", ranks - shown_.size(), ranks);
    trace_.ops = op_table(run_);
    for (const Stream& s : run_.program.streams) trace_.streams.push_back({s.name, std::string(name_of(s.kind))});
    std::vector<int> shown_of_class(run_.classes.size.size());
    for (const int rank : shown_) ++shown_of_class[class_of(rank)];
    for (const int rank : shown_) {
      const std::size_t c = class_of(rank);
      // Where several of a class are shown, the first one stands for those that are not.
      const bool first = !seen_class_[c];
      seen_class_[c] = true;
      const int others = first ? run_.classes.size[c] - shown_of_class[c] : 0;
      trace_.ranks.push_back({rank, rank_label(run_.program, rank), 1 + others});
    }
    for (int c = 0; c < category_count; ++c) {
      trace_.memory_categories.emplace_back(name_of(static_cast<Category>(c)));
    }
    trace_.memory_categories.emplace_back("framework");
    for (const LinkUse& link : run_.replay.links) trace_.links.push_back({link.link, link.bytes, link.bytes_per_s});
  }

  // The origin is the begin of the step, or the first slice of all ranks where that comes earlier.
  void choose_origin() {
    origin_ = run_.replay.begin;
    for (const RankTimeline& timeline : run_.replay.timelines) {
      for (const Slice& s : timeline.slices) origin_ = std::min(origin_, s.start);
    }
    trace_.step_begin = run_.replay.begin - origin_;
    trace_.step_end = run_.replay.end - origin_;
  }

  void add_slices(std::size_t r) {
    const int rank = shown_[r];
    const Body& body = run_.program.bodies[body_index(rank)];
    const std::vector<Slice>& slices = slices_of(rank);
    first_slice_.push_back(static_cast<std::uint32_t>(trace_.slices.size()));
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const Slice& from = slices[i];
      const Op& op = body.ops[i];
      TraceSlice s;
      s.start = from.start - origin_;
      s.transfer = from.transfer - origin_;
      s.end = from.end - origin_;
      s.op = op.spec;
      s.rank = static_cast<std::uint32_t>(r);
      if (from.cause_op != no_op) s.cause = first_slice_[r] + from.cause_op;
      s.previous_step = from.cause_previous_step;
      s.layer = op.layer;
      s.micro_batch = op.micro_batch;
      s.chunk = op.chunk;
      s.stream = run_.program.spec(op).stream;
      s.release = release_of(from.cause);
      trace_.slices.push_back(s);
    }
  }

  // The rank among those shown that stands for `rank`; no_index for none.
  std::uint32_t shown_index(int rank) const {
    const std::uint32_t own = index_of_rank_[static_cast<std::size_t>(rank)];
    if (own != no_index) return own;
    return index_of_rank_[static_cast<std::size_t>(run_.classes.representative[class_of(rank)])];
  }

  // The rank that is to `rank` what `peer` is to the representative of its class, by op `op`.
  int translate_peer(int rank, std::uint32_t op, int peer) const {
    const int from = run_.classes.representative[class_of(rank)];
    if (from == rank) return peer;
    const Body& body = run_.program.bodies[body_index(rank)];
    const OpSpec& spec = run_.program.spec(body.ops[op]);
    if (is_collective(spec.kind)) {
      const Communicators::Of& group = run_.communicators.by_group[spec.group];
      const auto members_of = [&](int r) { return group.of(group.instance_of[static_cast<std::size_t>(r)]); };
      const auto members = members_of(from);
      const auto at = std::find(members.begin(), members.end(), peer) - members.begin();
      return members_of(rank)[static_cast<std::size_t>(at)];
    }
    for (const Message& m : run_.program.messages(body, body.ops[op])) {
      if (run_.program.peer_rank(from, m.peer) == peer) return run_.program.peer_rank(rank, m.peer);
    }
    return peer;
  }

  // Peers and flows of one rank's slices.
  void link_slices(std::size_t r) {
    const int rank = shown_[r];
    const Body& body = run_.program.bodies[body_index(rank)];
    const std::vector<Slice>& slices = slices_of(rank);
    for (std::uint32_t i = 0; i < slices.size(); ++i) {
      const OpSpec& spec = run_.program.spec(body.ops[i]);
      if (!is_communication(spec.kind)) continue;
      const std::uint32_t own = first_slice_[r] + i;
      if (slices[i].peer >= 0) {
        const int peer = translate_peer(rank, i, slices[i].peer);
        const std::uint32_t at = shown_index(peer);
        const std::uint32_t op = partners_.op_at_peer(rank, i, peer);
        if (at != no_index && op != no_op) {
          trace_.slices[own].peer = first_slice_[at] + op;
          if (is_collective(spec.kind)) trace_.flows.push_back({first_slice_[at] + op, own});
        }
      }
      for (const Message& m : run_.program.messages(body, body.ops[i])) {
        if (m.send) continue;
        const int peer = run_.program.peer_rank(rank, m.peer);
        const std::uint32_t at = shown_index(peer);
        const std::uint32_t op = partners_.op_of_message(body_index(peer), m.tag, true);
        if (at != no_index && op != no_op) trace_.flows.push_back({first_slice_[at] + op, own});
      }
    }
  }

  // A change of memory happens when the last compute op at or before its position starts.
  void add_memory(std::size_t r) {
    const std::size_t body_id = body_index(shown_[r]);
    const Body& body = run_.program.bodies[body_id];
    const std::vector<Slice>& slices = slices_of(shown_[r]);
    const std::int64_t framework = std::llround(run_.scenario.cluster.node.device.framework_bytes);
    Picoseconds now = std::min(run_.replay.begin, slices.empty() ? run_.replay.begin : slices.front().start);
    std::size_t next = 0;
    for (const Liveness::Change& change : run_.liveness[body_id].curve) {
      for (; next <= change.op && next < slices.size(); ++next) {
        if (run_.program.spec(body.ops[next]).stream == 0) now = slices[next].start;
      }
      trace_.memory.push_back({now - origin_, static_cast<std::uint32_t>(r)});
      trace_.memory_bytes.insert(trace_.memory_bytes.end(), change.bytes.begin(), change.bytes.end());
      trace_.memory_bytes.push_back(framework);
    }
  }

  void cut_to_window() {
    const auto [from, to] = *request_.window;
    std::vector<std::uint32_t> kept_as(trace_.slices.size(), no_slice);
    std::vector<TraceSlice> kept;
    for (std::size_t i = 0; i < trace_.slices.size(); ++i) {
      const TraceSlice& s = trace_.slices[i];
      if (s.end < from || s.start > to) continue;
      kept_as[i] = static_cast<std::uint32_t>(kept.size());
      kept.push_back(s);
    }
    for (TraceSlice& s : kept) {
      if (s.cause != no_slice) s.cause = kept_as[s.cause];
      if (s.peer != no_slice) s.peer = kept_as[s.peer];
    }
    std::string& left_out = trace_.provenance.left_out;
    left_out += fmt::format("{}{} of {} slices outside the window", left_out.empty() ? "" : ", ",
                            trace_.slices.size() - kept.size(), trace_.slices.size());
    trace_.slices = std::move(kept);
    std::erase_if(trace_.flows, [&](TraceFlow& flow) {
      flow = {kept_as[flow.from], kept_as[flow.to]};
      return flow.from == no_slice || flow.to == no_slice;
    });
    std::vector<TraceMemory> samples;
    std::vector<std::int64_t> bytes;
    const std::size_t categories = trace_.memory_categories.size();
    for (std::size_t i = 0; i < trace_.memory.size(); ++i) {
      const TraceMemory& sample = trace_.memory[i];
      const bool last_before =
          i + 1 == trace_.memory.size() || trace_.memory[i + 1].rank != sample.rank || trace_.memory[i + 1].time > from;
      if (sample.time > to || (sample.time < from && !last_before)) continue;
      samples.push_back(sample);
      const auto first = trace_.memory_bytes.begin() + static_cast<std::ptrdiff_t>(i * categories);
      bytes.insert(bytes.end(), first, first + static_cast<std::ptrdiff_t>(categories));
    }
    trace_.memory = std::move(samples);
    trace_.memory_bytes = std::move(bytes);
  }

  static constexpr std::uint32_t no_index = 0xffffffff;

  const RunView& run_;
  const TraceRequest& request_;
  const Partners partners_;
  Trace trace_;
  Picoseconds origin_{0};
  std::vector<int> shown_;                    // ranks, ascending
  std::vector<std::uint32_t> index_of_rank_;  // into shown_
  std::vector<std::uint32_t> first_slice_;    // by index into shown_
  std::vector<bool> seen_class_ = std::vector<bool>(run_.classes.size.size());
};

}  // namespace

Trace build_trace(const RunView& run, const TraceRequest& request, std::string_view tool) {
  return TraceBuilder(run, request).build(tool);
}

}  // namespace meshweave
