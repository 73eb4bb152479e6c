#include "sim/scenario/check_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "sim/base/text.h"

namespace meshweave {
namespace {

// The cluster as messages show it: "768 ranks (96 nodes of 8)".
std::string describe(const Cluster& cluster) {
  return fmt::format("{} ({} of {})", count_text(cluster.ranks(), "rank"), count_text(cluster.nodes, "node"),
                     cluster.node.gpus);
}

// How `product` = `fixed` · dp ranks and the cluster can be made equal.
std::string hint_for_ranks(const Cluster& cluster, std::int64_t fixed, std::int64_t product) {
  std::vector<std::string> ways;
  if (product % cluster.node.gpus == 0) ways.push_back(count_text(product / cluster.node.gpus, "node"));
  if (cluster.ranks() % fixed == 0) ways.push_back(fmt::format("dp {}", cluster.ranks() / fixed));
  // A part of a node is a node of fewer GPUs.
  if (product < cluster.node.gpus) {
    ways.insert(ways.begin(), fmt::format("a node of {}: \"node\": {{ \"base\": \"{}\", \"gpus\": {} }}",
                                          count_text(product, "GPU"), cluster.node.name, product));
  }
  return ways.empty() ? "" : fmt::format("use {}", fmt::join(ways, ", or "));
}

// "tp 2 · cp 4 · pp 2", sequence axes only where there are any.
std::string degrees_text(const ModuleLayout& layout) {
  std::string text = fmt::format("tp {}", layout.tp);
  if (layout.cp.degree > 1) text += fmt::format(" · cp {}", layout.cp.degree);
  if (layout.tsp.degree > 1) text += fmt::format(" · tsp {}", layout.tsp.degree);
  return text + fmt::format(" · pp {}", layout.pp);
}

// The ranks of the module are those of the cluster; dp fills them when it is left open. False when they do not fit.
bool resolve_ranks(const Cluster& cluster, ModuleLayout& layout, const std::string& at, const ReportAt& report) {
  const std::size_t before = report.count();
  const std::int64_t ranks = cluster.ranks();
  if (layout.rank_offset != 0)
    report(at + "/ranks/offset", fmt::format("must be 0: one module covers all {}", describe(cluster)));
  if (layout.rank_count != 0 && layout.rank_count != ranks)
    report(at + "/ranks/size", fmt::format("{} is not the cluster's {}", layout.rank_count, describe(cluster)));
  if (report.count() != before) return false;
  layout.rank_count = cluster.ranks();

  const std::int64_t fixed = layout.model_ranks();
  if (layout.dp == 0) {
    if (ranks % fixed == 0) {
      layout.dp = static_cast<int>(ranks / fixed);
      return true;
    }
    report(at, fmt::format("{} = {} does not divide the {}", degrees_text(layout), fixed, describe(cluster)));
    return false;
  }
  const std::int64_t product = fixed * layout.dp;
  if (product == ranks) return true;
  report(at,
         fmt::format("{} · dp {} = {}, but the cluster has {}", degrees_text(layout), layout.dp, product,
                     describe(cluster)),
         hint_for_ranks(cluster, fixed, product));
  return false;
}

void check_order(const ModuleLayout& layout, const std::string& at, const ReportAt& report) {
  const std::array<std::pair<std::string_view, int>, 6> degrees{{{"tp", layout.tp},
                                                                 {"cp", layout.cp.degree},
                                                                 {"tsp", layout.tsp.degree},
                                                                 {"ep", layout.ep},
                                                                 {"dp", layout.dp},
                                                                 {"pp", layout.pp}}};
  std::vector<std::string_view> named;
  std::string_view rest = layout.order;
  while (true) {
    const std::size_t dash = std::min(rest.find('-'), rest.size());
    const std::string_view axis = rest.substr(0, dash);
    if (std::none_of(degrees.begin(), degrees.end(), [&](const auto& d) { return d.first == axis; })) {
      report(at + "/order", fmt::format("\"{}\" is no axis (expected e.g. \"tp-cp-ep-dp-pp\")", axis));
      return;
    }
    if (std::find(named.begin(), named.end(), axis) != named.end())
      report(at + "/order", fmt::format("names {} twice", axis));
    named.push_back(axis);
    if (dash == rest.size()) break;
    rest.remove_prefix(dash + 1);
  }
  for (const auto& [axis, degree] : degrees)
    if (degree > 1 && axis != "tsp" && std::find(named.begin(), named.end(), axis) == named.end())
      report(at + "/order", fmt::format("does not name {}, which is {}", axis, degree));
}

void check_tensor_parallel(const TransformerShape& shape, const ModuleLayout& layout, const Overlap& overlap,
                           const std::string& at, const ReportAt& report) {
  const std::int64_t tp = layout.tp;
  const auto divides = [&](std::int64_t n, std::string_view what) {
    if (n % tp == 0) return;
    report(at + "/tp", fmt::format("{} does not divide {} {} ({} do)", tp, what, n, divisors(n)));
  };
  divides(shape.heads, "the number of attention heads,");
  // Megatron replicates key and value heads when there are fewer than ranks; here each rank has its own.
  divides(shape.kv_heads, "the number of key-value heads,");
  divides(shape.ffn, "ffn =");
  const std::int64_t share = shape.sequence / layout.cp.degree;  // of a context-parallel rank
  if (layout.sequence_parallel) divides(share, "the sequence (sequence_parallel) of");
  if (!overlap.tp || tp == 1) return;
  if (!layout.sequence_parallel) {
    report("/overlap/tp", "overlaps the gathers and scatters of sequence parallelism, which is off",
           fmt::format("set {}/sequence_parallel to true, or overlap.tp to false", at));
  } else if (const std::int64_t pieces = tp * overlap.tp_chunks; share % pieces != 0) {
    report("/overlap/tp_chunks", fmt::format("tp {} · {} chunks = {} do not divide the sequence of {}", tp,
                                             overlap.tp_chunks, pieces, share));
  }
}

// Ranks that hold segments p and 2D−1−p of 2D, or one of D parts.
void check_partition(std::int64_t sequence, std::int64_t degree, Partition partition, const std::string& at,
                     const ReportAt& report) {
  const std::int64_t parts = partition == Partition::zigzag ? 2 * degree : degree;
  // Hops along a ring are counted in 16 bits.
  constexpr std::int64_t longest_ring = 32767;
  if (degree > longest_ring)
    return report(at, fmt::format("{} ranks that share a sequence are too many (at most {})", degree, longest_ring));
  if (sequence % parts == 0) return;
  const std::int64_t below = sequence / parts * parts;
  report(at,
         fmt::format("the sequence of {} is not divisible by {} ({} {}; {} is)", sequence,
                     partition == Partition::zigzag ? "2 · the degree" : "the degree",
                     partition == Partition::zigzag ? "zigzag segments:" : "parts:", parts, below > 0 ? below : parts));
}

void check_context_parallel(const TransformerShape& shape, ModuleLayout& layout, const std::string& at,
                            const ReportAt& report) {
  ContextParallel& cp = layout.cp;
  const bool exchanges = cp.kind == ContextKind::ulysses || cp.kind == ContextKind::ulysses_ring;
  const std::int64_t own_heads = std::max<std::int64_t>(1, shape.kv_heads / layout.tp);
  if (cp.kind == ContextKind::ulysses_ring) {
    if (cp.ulysses == 0) cp.ulysses = static_cast<int>(std::gcd<std::int64_t>(own_heads, cp.degree));
    if (cp.degree % cp.ulysses != 0) {
      report(at + "/cp/ulysses",
             fmt::format("{} does not divide the degree {} ({} do)", cp.ulysses, cp.degree, divisors(cp.degree)));
      return;
    }
  } else {
    const int implied = exchanges ? cp.degree : 1;
    if (cp.ulysses > 1 && cp.ulysses != implied)
      report(at + "/cp/ulysses",
             fmt::format("belongs to the kind \"ulysses-ring\" (the kind is \"{}\")", name_of(cp.kind)));
    cp.ulysses = implied;
  }
  if (cp.degree == 1) return;
  if (!cp.regather && cp.kind != ContextKind::all_gather)
    report(at + "/cp/regather",
           fmt::format("belongs to the kind \"all-gather\" (the kind is \"{}\")", name_of(cp.kind)));
  if (cp.ring() == 1 && cp.partition == Partition::contiguous)
    report(at + "/cp/partition",
           fmt::format("every rank has all tokens of its heads in attention (the kind is \"{}\")", name_of(cp.kind)),
           "leave it out");
  if (exchanges && own_heads % cp.ulysses != 0)
    report(at + "/cp",
           fmt::format("{} ranks do not divide the {} of a tensor-parallel rank, which they exchange ({} do)",
                       cp.ulysses, count_text(own_heads, "key-value head"), divisors(own_heads)),
           "\"ring\" and \"all-gather\" share any number of heads");
  const bool rings = cp.kind == ContextKind::ring || (cp.kind == ContextKind::ulysses_ring && cp.ring() > 1);
  if (rings && !shape.fused_attention)
    report(at + "/cp", "a ring merges the results of fused attention (fused_attention is false)",
           "\"all-gather\" and \"ulysses\" work with unfused attention");
  if (layout.keep == Keep::keys_values && cp.kind != ContextKind::all_gather)
    report(
        at + "/keep",
        fmt::format("keys and values of all tokens are kept where they are gathered (cp is \"{}\")", name_of(cp.kind)),
        "set cp.kind to \"all-gather\", or keep to \"nothing\"");
  check_partition(shape.sequence / cp.ulysses, cp.ring(), cp.partition, at + "/cp", report);
  if (cp.ulysses > 1 && shape.sequence % cp.degree != 0)
    report(at + "/cp", fmt::format("{} does not divide the sequence of {}", cp.degree, shape.sequence));
}

void check_folded(const Scenario& s, const TransformerShape& shape, const ModuleLayout& layout, const std::string& at,
                  const ReportAt& report) {
  const Folded& tsp = layout.tsp;
  if (tsp.degree == 1) return;
  const auto divides = [&](std::int64_t n, std::string_view what) {
    if (n % tsp.degree == 0) return;
    report(at + "/tsp", fmt::format("{} does not divide {} {} ({} do)", tsp.degree, what, n, divisors(n)));
  };
  if (layout.tp > 1 || layout.cp.degree > 1)
    report(at + "/tsp", fmt::format("takes the place of tp and cp (tp is {}, cp {})", layout.tp, layout.cp.degree),
           "set tp and cp to 1");
  if (tsp.prefetch >= tsp.degree)
    report(at + "/tsp/prefetch",
           fmt::format("{} shards under way are more than the other ranks have ({})", tsp.prefetch, tsp.degree - 1));
  if (tsp.ring == RingKind::striped && s.cluster.node.fabric != NodeFabric::mesh)
    report(at + "/tsp/ring", "a ring is striped over the links of a full mesh (this node has a switch)",
           "use \"plain\"");
  divides(shape.heads, "the number of attention heads,");
  divides(shape.kv_heads, "the number of key-value heads,");
  divides(shape.ffn, "ffn =");
  check_partition(shape.sequence, tsp.degree, tsp.partition, at + "/tsp", report);
  if (s.schedule.defer_weight_gradients)
    report("/schedule/defer_weight_gradients",
           "the gradients of folded weights travel with the weights, in the backward itself (must be false)");
  if (!shape.fused_attention)
    report(at + "/tsp", "needs fused attention: no rank has the scores of all heads (fused_attention is false)");
  if (layout.keep == Keep::keys_values)
    report(at + "/keep", "gathered keys and values are not kept with tsp: they visit head by head");
}

// Even stages, in which embedding and loss may take the place of a layer.
void fill_stages(const TransformerShape& shape, LayoutForm& form, const std::string& at, const ReportAt& report) {
  ModuleLayout& layout = form.layout;
  const std::int64_t count = std::int64_t{layout.pp} * layout.vpp;
  const std::int64_t slots = shape.layers + form.embedding_counts + form.loss_counts;
  if (slots % count != 0) {
    const bool counted = slots != shape.layers;
    const std::string hint =
        slots < count ? fmt::format("every stage needs a layer: pp · vpp is at most {}", slots)
        : counted     ? "\"stages\" gives the layers of each stage, as a list"
                      : "\"stages\" gives the layers of each stage, or { \"embedding\": true, \"loss\": true }";
    report(
        at + (form.layout.vpp > 1 ? "/vpp" : "/pp"),
        fmt::format("the {}{} {} not split evenly over pp {} · vpp {} = {} stages", count_text(shape.layers, "layer"),
                    counted ? fmt::format(" and {} that count as one", slots - shape.layers) : "",
                    slots == 1 ? "does" : "do", layout.pp, layout.vpp, count),
        hint);
    return;
  }
  layout.stages.assign(static_cast<std::size_t>(count), static_cast<int>(slots / count));
  layout.stages.front() -= form.embedding_counts;
  layout.stages.back() -= form.loss_counts;
}

void check_stages(const TransformerShape& shape, const ModuleLayout& layout, const std::string& at,
                  const ReportAt& report) {
  const std::vector<int>& stages = layout.stages;
  const std::size_t count = static_cast<std::size_t>(layout.pp) * static_cast<std::size_t>(layout.vpp);
  if (stages.size() != count) {
    report(at + "/stages", fmt::format("has {} {}, but there are pp {} · vpp {} = {}", stages.size(),
                                       stages.size() == 1 ? "entry" : "entries", layout.pp, layout.vpp,
                                       count_text(static_cast<std::int64_t>(count), "stage")));
    return;
  }
  const std::int64_t sum = std::accumulate(stages.begin(), stages.end(), std::int64_t{0});
  if (sum != shape.layers)
    report(at + "/stages", fmt::format("add up to {}, but the model has {}", count_text(sum, "layer"), shape.layers));
  for (std::size_t i = 1; i + 1 < count; ++i)
    if (stages[i] == 0) report(pointer_to(at + "/stages", i), "only the first and the last stage may have no layer");
}

void check_data_parallel(const ModuleLayout& layout, const std::string& at, const ReportAt& report) {
  if (layout.optimizer_instances == 1) return;
  if (layout.zero == 0) {
    report(at + "/optimizer_instances", "needs a distributed optimizer", "\"zero\": 1 shards the optimizer state");
  } else if (layout.dp % layout.optimizer_instances != 0) {
    report(at + "/optimizer_instances",
           fmt::format("{} does not divide dp {} ({} do)", layout.optimizer_instances, layout.dp, divisors(layout.dp)));
  }
}

void check_batch(const Scenario& s, const ModuleLayout& layout, const std::string& at, const ReportAt& report) {
  const std::int64_t step = s.batch.micro * layout.dp;
  if (s.batch.global % step != 0) {
    const std::int64_t below = s.batch.global / step * step;
    report("/batch/global", fmt::format("{} is not a multiple of micro {} · dp {} = {} ({} is)", s.batch.global,
                                        s.batch.micro, layout.dp, step, below > 0 ? below : step));
    return;
  }
  const std::int64_t micro_batches = s.batch.global / step;
  constexpr std::int64_t most = 32767;
  if (micro_batches > most)
    report("/batch/global", fmt::format("gives {} micro-batches (at most {})", micro_batches, most));
  if (layout.vpp > 1 && micro_batches % layout.pp != 0) {
    report(at + "/vpp",
           fmt::format("an interleaved schedule needs a multiple of pp {} micro-batches (the batch gives {})",
                       layout.pp, micro_batches));
  }
}

void check_schedule(const Schedule& schedule, const ModuleLayout& layout, const std::string& at,
                    const ReportAt& report) {
  if (layout.vpp == 1) return;
  if (schedule.kind == ScheduleKind::gpipe)
    report(at + "/vpp", "gpipe has no virtual stages (must be 1)", "\"1f1b\" interleaves them");
  if (layout.pp == 1) report(at + "/vpp", "virtual stages need a pipeline: pp is 1 (must be 1)");
}

}  // namespace

std::string divisors(std::int64_t n) {
  constexpr std::size_t most = 12;
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    found.push_back(d);
    if (d * d != n) found.push_back(n / d);
  }
  std::sort(found.begin(), found.end());
  const bool more = found.size() > most;
  found.resize(std::min(found.size(), most));
  return fmt::format("{}{}", fmt::join(found, ", "), more ? ", ..." : "");
}

void resolve_layout(ScenarioForm& form, const TransformerShape& shape, LayoutForm& layout, const std::string& at,
                    const ReportAt& report) {
  Scenario& s = form.scenario;
  ModuleLayout& l = layout.layout;
  check_context_parallel(shape, l, at, report);
  check_tensor_parallel(shape, l, s.overlap, at, report);
  check_folded(s, shape, l, at, report);
  if (l.keep != Keep::nothing && l.recompute != Recompute::full)
    report(at + "/keep", fmt::format("belongs to recompute \"full\" (recompute is \"{}\")", name_of(l.recompute)));
  check_schedule(s.schedule, l, at, report);
  constexpr std::int64_t most_stages = 2047;
  if (std::int64_t{l.pp} * l.vpp > most_stages) {
    report(at + "/vpp", fmt::format("pp {} · vpp {} gives more than {} stages", l.pp, l.vpp, most_stages));
    return;
  }
  if (l.stages.empty())
    fill_stages(shape, layout, at, report);
  else
    check_stages(shape, l, at, report);
  if (l.tsp.degree > 1 && (l.tp > 1 || l.cp.degree > 1)) return;  // which of them, decides the ranks
  if (!resolve_ranks(s.cluster, l, at, report)) return;
  check_order(l, at, report);
  check_data_parallel(l, at, report);
  check_batch(s, l, at, report);
  if (s.optimizer.bucket_parameters == 0)
    s.optimizer.bucket_parameters = std::max<std::int64_t>(40'000'000, 1'000'000 * std::int64_t{l.dp});
}

}  // namespace meshweave
