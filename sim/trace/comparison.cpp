#include "sim/trace/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>

#include "sim/base/error.h"
#include "sim/trace/breakdown.h"

namespace meshweave {
namespace {

// Sums of picoseconds over many ranks exceed 64 bits for long steps.
__extension__ using WideInteger = __int128;

using PartTimes = std::map<PartKey, Picoseconds>;

// Exact sums of the parts of many ranks.
class PartSums {
 public:
  void add(const PartTimes& parts, int ranks, std::int64_t peak_memory_bytes) {
    ranks_ += ranks;
    peak_ = std::max(peak_, peak_memory_bytes);
    for (const auto& [key, time] : parts) sums_[key] += WideInteger{time.count()} * ranks;
  }

  PartMeans means() const {
    PartMeans means;
    means.ranks = ranks_;
    means.peak_memory_bytes = peak_;
    struct Rest {
      std::size_t part;
      std::int64_t remainder;
    };
    std::vector<Rest> rests;
    WideInteger left = 0;  // of the sum of all remainders
    for (const auto& [key, sum] : sums_) {
      const auto remainder = static_cast<std::int64_t>(sum % ranks_);
      rests.push_back({means.parts.size(), remainder});
      means.parts.push_back({key, Picoseconds{static_cast<std::int64_t>(sum / ranks_)}});
      left += remainder;
    }
    std::stable_sort(rests.begin(), rests.end(),
                     [](const Rest& x, const Rest& y) { return x.remainder > y.remainder; });
    for (std::size_t i = 0; left >= ranks_; ++i, left -= ranks_) ++means.parts[rests[i].part].time;
    std::erase_if(means.parts, [](const StepPart& part) { return part.time.count() == 0; });
    return means;
  }

 private:
  std::int64_t ranks_ = 0;
  std::int64_t peak_ = 0;
  std::map<PartKey, WideInteger> sums_;
};

PartKey key_of_compute(const TraceOp& op) {
  if (op.phase == "optimizer") return {PartKind::optimizer, {}, {}};
  return {op.phase == "recompute" ? PartKind::recompute : PartKind::compute, op.kind, {}};
}

PartKey key_of_exposed(const TraceOp& op, const TraceStream& stream) {
  if (stream.kind == "boundary") return {PartKind::boundary, {}, {}};
  return {PartKind::exposed, op.kind, stream.kind};
}

void check_comparable(const Trace& trace) {
  if (trace.provenance.emulation) {
    throw InputError("a trace of an emulation has the order of the ops, but no times to compare");
  }
  if (trace.provenance.left_out.find("slices") != std::string::npos) {
    throw InputError(fmt::format("a part of the step is missing ({}); a trace without a window is needed",
                                 trace.provenance.left_out));
  }
  if (trace.ranks.empty()) throw InputError("the trace holds no ranks");
  if (trace.streams.empty()) throw InputError("the trace holds no streams");
  if (trace.step_end <= trace.step_begin) throw InputError("the step ends before it begins");
  for (const TraceRank& rank : trace.ranks) {
    if (rank.stands_for < 1) throw InputError(fmt::format("rank {} stands for {} ranks", rank.rank, rank.stands_for));
  }
  for (std::size_t i = 0; i < trace.slices.size(); ++i) {
    const TraceSlice& s = trace.slices[i];
    if (i > 0 && s.rank < trace.slices[i - 1].rank)
      throw InputError(fmt::format("slice {} is not in the order of ranks", i));
    if (s.cause != no_slice && !s.previous_step && s.cause >= i) {
      throw InputError(fmt::format("the cause of slice {} comes behind it", i));
    }
  }
}

// The largest sum over the categories, by index into Trace::ranks.
std::vector<std::int64_t> memory_peaks(const Trace& trace) {
  std::vector<std::int64_t> peaks(trace.ranks.size());
  const auto categories = static_cast<std::ptrdiff_t>(trace.memory_categories.size());
  auto bytes = trace.memory_bytes.begin();
  for (const TraceMemory& sample : trace.memory) {
    peaks[sample.rank] = std::max(peaks[sample.rank], std::accumulate(bytes, bytes + categories, std::int64_t{0}));
    bytes += categories;
  }
  return peaks;
}

// The pipeline coordinate in a label such as "tp0 dp3 pp1". A rank of several modules, "pp0 / pp2", belongs to the
// last.
int stage_of(std::string_view label) {
  const std::size_t at = label.substr(label.find_last_of('/') + 1).find("pp");
  if (at == std::string_view::npos) return 0;
  const std::string_view digits = label.substr(label.find_last_of('/') + 1 + at + 2);
  int stage = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), stage);
  return stage;
}

// The last module that a rank has ops of, in the order of the table of ops.
std::vector<std::string> modules_of_ranks(const Trace& trace) {
  std::vector<std::uint32_t> last_op(trace.ranks.size());
  for (const TraceSlice& s : trace.slices) {
    if (!trace.ops[s.op].module.empty()) last_op[s.rank] = std::max(last_op[s.rank], s.op);
  }
  std::vector<std::string> modules;
  for (const std::uint32_t op : last_op)
    modules.push_back(op < trace.ops.size() ? trace.ops[op].module : std::string());
  return modules;
}

std::vector<PartTimes> parts_of_ranks(const Trace& trace) {
  std::vector<PartTimes> by_rank(trace.ranks.size());
  const auto compute = [&](std::size_t i, Picoseconds time) {
    const TraceSlice& s = trace.slices[i];
    by_rank[s.rank][key_of_compute(trace.ops[s.op])] += time;
  };
  const auto exposed = [&](std::size_t i, Picoseconds time) {
    const TraceSlice& s = trace.slices[i];
    by_rank[s.rank][key_of_exposed(trace.ops[s.op], trace.streams[s.stream])] += time;
  };
  const std::vector<Breakdown> breakdowns = break_down(trace, compute, exposed);
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    by_rank[r][{PartKind::bubble, {}, {}}] = breakdowns[r].bubble;
    by_rank[r][{PartKind::host, {}, {}}] = breakdowns[r].host;
    by_rank[r][{PartKind::copy, {}, {}}] = breakdowns[r].copy;
  }
  return by_rank;
}

bool larger(const PartChange& x, const PartChange& y) {
  const auto size = [](const PartChange& c) { return std::abs(c.change().count()); };
  return size(x) != size(y) ? size(x) > size(y) : x.key < y.key;
}

std::size_t stages_of(const StepParts& step, const std::string& module) {
  return static_cast<std::size_t>(
      std::count_if(step.stages.begin(), step.stages.end(), [&](const StageParts& s) { return s.module == module; }));
}

const StageParts* find_stage(const StepParts& step, const StageParts& like) {
  for (const StageParts& stage : step.stages) {
    if (stage.module == like.module && stage.stage == like.stage) return &stage;
  }
  return nullptr;
}

}  // namespace

std::string_view name_of(PartKind part) {
  constexpr std::string_view names[] = {"compute",  "recompute", "optimizer", "exposed",
                                        "boundary", "bubble",    "host",      "copy"};
  return names[static_cast<std::size_t>(part)];
}

Picoseconds PartMeans::of(PartKind part) const {
  Picoseconds sum{0};
  for (const StepPart& p : parts) {
    if (p.key.part == part) sum += p.time;
  }
  return sum;
}

StepParts step_parts(const Trace& trace) {
  check_comparable(trace);
  const std::vector<PartTimes> by_rank = parts_of_ranks(trace);
  const std::vector<std::int64_t> peaks = memory_peaks(trace);
  const std::vector<std::string> modules = modules_of_ranks(trace);
  StepParts step;
  step.step = trace.step_end - trace.step_begin;
  PartSums all;
  std::vector<PartSums> by_stage;
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    const TraceRank& rank = trace.ranks[r];
    StageParts stage{modules[r], stage_of(rank.label), {}};
    const StageParts* known = find_stage(step, stage);
    const std::size_t at = known != nullptr ? static_cast<std::size_t>(known - step.stages.data()) : step.stages.size();
    if (known == nullptr) {
      step.stages.push_back(std::move(stage));
      by_stage.emplace_back();
    }
    all.add(by_rank[r], rank.stands_for, peaks[r]);
    by_stage[at].add(by_rank[r], rank.stands_for, peaks[r]);
  }
  step.mean = all.means();
  for (std::size_t s = 0; s < by_stage.size(); ++s) step.stages[s].mean = by_stage[s].means();
  return step;
}

std::vector<PartChange> compare_parts(const std::vector<StepPart>& a, const std::vector<StepPart>& b) {
  std::map<PartKey, PartChange> by_key;
  for (const StepPart& part : a) by_key[part.key].a += part.time;
  for (const StepPart& part : b) by_key[part.key].b += part.time;
  std::vector<PartChange> changes;
  for (auto& [key, change] : by_key) {
    change.key = key;
    changes.push_back(std::move(change));
  }
  std::sort(changes.begin(), changes.end(), larger);
  return changes;
}

std::vector<StageChange> match_stages(const StepParts& a, const StepParts& b) {
  std::vector<StageChange> changes;
  for (const StageParts& stage : a.stages) {
    const bool alike = stages_of(a, stage.module) == stages_of(b, stage.module);
    const StageParts* other = alike ? find_stage(b, stage) : nullptr;
    changes.push_back({stage.module, stage.stage, &stage.mean, other != nullptr ? &other->mean : nullptr});
  }
  for (const StageParts& stage : b.stages) {
    const bool alike = stages_of(a, stage.module) == stages_of(b, stage.module);
    if (alike && find_stage(a, stage) != nullptr) continue;
    changes.push_back({stage.module, stage.stage, nullptr, &stage.mean});
  }
  return changes;
}

}  // namespace meshweave
