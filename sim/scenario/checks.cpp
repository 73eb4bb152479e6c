#include "sim/scenario/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/base/text.h"
#include "sim/scenario/check_graph.h"
#include "sim/scenario/check_hosts.h"
#include "sim/scenario/check_layout.h"
#include "sim/scenario/check_limits.h"
#include "sim/scenario/report_at.h"
#include "sim/scenario/zoo.h"

namespace meshweave {
namespace {

void check_module_names(const ScenarioForm& form, const ReportAt& report) {
  if (form.modules.empty()) report("/model", "names no module");
  std::vector<std::string> names;
  for (const auto& [name, shape] : form.modules) {
    names.push_back(name);
    const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    });
    if (!plain) report.at_key(pointer_to("/model", name), "a module's name consists of letters, digits, - and _");
  }
  for (const auto& [name, layout] : form.layouts) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      report.at_key(pointer_to("/layout", name), "there is no module of this name",
                    fmt::format("the modules are {}", fmt::join(names, ", ")));
  }
}

// The grid of an item's tokens, which rope-2d turns by.
void resolve_grid(TransformerShape& shape, const std::string& at, const ReportAt& report) {
  if (shape.position != Position::rope_2d) {
    if (shape.item_columns != 0) report(at + "/item_columns", "belongs to the position \"rope-2d\"");
    return;
  }
  if (shape.kind != ModuleKind::encoder) {
    report(at + "/position", "only the items of an encoder have rows and columns", "\"rope\" turns by the token");
    return;
  }
  if (shape.head_dim % 4 != 0)
    report(at + "/head_dim",
           fmt::format("{} is no multiple of 4: rows and columns turn half of the pairs each", shape.head_dim));
  if (shape.item_columns == 0) {
    const auto root = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(shape.sequence))));
    if (root * root == shape.sequence)
      shape.item_columns = root;
    else
      report(at, fmt::format("\"item_columns\" is missing: {} form no square ({} do)",
                             count_text(shape.sequence, "token"), root * root));
  } else if (shape.sequence % shape.item_columns != 0) {
    report(at + "/item_columns", fmt::format("{} does not divide the {} of an item ({} do)", shape.item_columns,
                                             count_text(shape.sequence, "token"), divisors(shape.sequence)));
  }
}

void resolve_shape(TransformerShape& shape, const std::string& at, const ReportAt& report) {
  if (!shape.attends()) {
    if (shape.biases == Biases::qkv) report(at + "/biases", "a projector has no queries (\"none\" or \"all\")");
    return;
  }
  if (shape.head_dim == 0 && shape.hidden % shape.heads != 0) {
    report(at + "/heads", fmt::format("{} does not divide hidden = {} (or give head_dim)", shape.heads, shape.hidden));
  }
  fill_shape(shape);
  const bool encodes = shape.kind == ModuleKind::encoder;
  if (encodes && shape.mask == AttentionMask::causal)
    report(at + "/mask", "the tokens of an item attend to each other in both directions (must be \"full\")");
  if (shape.sequence == 0) {
    report(at, encodes ? "\"item_tokens\" is missing (input tokens of an item)"
                       : "\"sequence\" is missing (tokens per sample)");
    return;
  }
  if (shape.heads % shape.kv_heads != 0) {
    report(at + "/kv_heads", fmt::format("{} does not divide the {} ({} do)", shape.kv_heads,
                                         count_text(shape.heads, "attention head"), divisors(shape.heads)));
  }
  if (shape.position == Position::rope && shape.head_dim % 2 != 0)
    report(at + "/head_dim", fmt::format("{} is odd, but rotary positions turn pairs", shape.head_dim));
  if (shape.position == Position::learned && shape.max_positions < shape.sequence) {
    report(at + (encodes ? "/item_tokens" : "/sequence"),
           fmt::format("{} exceed the {}", count_text(shape.sequence, "token"),
                       count_text(shape.max_positions, "learned position")),
           "\"max_positions\" sets the rows of the position table");
  }
  resolve_grid(shape, at, report);
}

// The models behind the prices need at least these constants.
void check_node(const Cluster& cluster, const ReportAt& report) {
  const NodeModel& node = cluster.node;
  if (node.device.matmul.tiles.empty()) report("/cluster/node/device/matmul/tiles", "needs at least one tile");
  const auto& efficiency = node.device.attention.efficiency;
  const std::string at = "/cluster/node/device/attention/efficiency";
  if (efficiency.empty()) report(at, "needs at least one head dimension");
  const auto by_dimension = [](const auto& a, const auto& b) { return a.head_dim <= b.head_dim; };
  if (std::adjacent_find(efficiency.begin(), efficiency.end(), std::not_fn(by_dimension)) != efficiency.end())
    report(at, "head dimensions must ascend");
  for (const CollectiveAlgorithm algorithm : {CollectiveAlgorithm::ring, CollectiveAlgorithm::p2p}) {
    const auto& curves = node.collectives.curves;
    const bool served = std::any_of(curves.begin(), curves.end(), [&](const CollectiveCurve& curve) {
      return curve.algorithm == algorithm && curve.least_members <= 2 &&
             (cluster.nodes == 1 || curve.nic_efficiency > 0);
    });
    if (served) continue;
    report("/cluster/node/collectives/curves",
           fmt::format("needs a curve of \"{}\" from 2 members on{}", name_of(algorithm),
                       cluster.nodes > 1 ? " with a nic_efficiency above 0" : ""));
  }
}

std::optional<Perturbation> resolve_perturbation(const PerturbForm& form, const Cluster& cluster, const std::string& at,
                                                 const ReportAt& report) {
  const bool has_rank = form.rank >= 0;
  const bool has_node = form.node >= 0;
  const bool has_link = form.link != SlowLink::unset;
  const bool has_jitter = !std::isnan(form.jitter);
  const bool has_compute = !std::isnan(form.compute_time);
  const bool has_bandwidth = !std::isnan(form.bandwidth);
  const int targets = (has_rank || has_link) + has_node + has_jitter;
  if (targets != 1) {
    report(at, fmt::format("names {} (one of rank, node, link with rank, jitter)",
                           targets == 0 ? "nothing that is slow" : "several targets"));
    return std::nullopt;
  }
  if (has_link && !has_rank) report(at, "\"rank\" is missing (whose link is slow)");
  if (has_link ? !has_bandwidth : !has_compute && !has_jitter) {
    report(at, has_link ? "\"bandwidth\" is missing (factor on the link's bandwidth)"
                        : "\"compute_time\" is missing (factor on durations)");
  }
  if (has_compute && (has_link || has_jitter)) report(at + "/compute_time", "belongs to a rank or a node alone");
  if (has_bandwidth && !has_link) report(at + "/bandwidth", "belongs to a link", "\"link\" is \"nic\" or \"intra\"");
  if (has_rank && form.rank >= cluster.ranks())
    report(at + "/rank",
           fmt::format("{} is beyond the last of the {}", form.rank, count_text(cluster.ranks(), "rank")));
  if (has_node && form.node >= cluster.nodes)
    report(at + "/node", fmt::format("{} is beyond the last of the {}", form.node, count_text(cluster.nodes, "node")));
  if (has_link && form.link == SlowLink::nic && cluster.nodes == 1)
    report(at + "/link", "one node uses no NIC", "\"intra\" is the link inside the node");
  Perturbation p;
  p.target = has_jitter ? PerturbTarget::jitter
             : has_link ? PerturbTarget::link
             : has_node ? PerturbTarget::node
                        : PerturbTarget::rank;
  p.index = std::max({form.rank, form.node, 0});
  p.link = name_of(form.link);
  if (has_compute) p.compute_time = form.compute_time;
  if (has_bandwidth) p.bandwidth = form.bandwidth;
  if (has_jitter) p.sigma = form.jitter;
  return p;
}

void resolve_cost(CostSettings& cost, const ReportAt& report) {
  const std::pair<std::string_view, double> times[] = {{"forward", cost.forward_s},
                                                       {"backward_data", cost.backward_data_s},
                                                       {"backward_weight", cost.backward_weight_s}};
  for (const auto& [key, value] : times) {
    if (cost.kind == CostKind::fixed && std::isnan(value))
      report("/cost", fmt::format("\"{}\" is missing (time per rank and micro-batch)", key));
    if (cost.kind == CostKind::model && !std::isnan(value))
      report(pointer_to("/cost", key), "belongs to the kind \"fixed\"");
  }
}

// Text-only samples come as micro-batches that are so on every data-parallel rank.
void resolve_text_only(Batch& batch, const ModuleGraph& model, int dp, const ReportAt& report) {
  TextOnly& text_only = batch.text_only;
  if (text_only.samples == 0) {
    if (text_only.every != 0) report("/batch/text_only", "\"samples\" is missing (how many have no items)");
    return;
  }
  if (num_vertices(model) == 1) {
    report("/batch/text_only", "belongs to a model with encoders: without, all samples are text only");
    return;
  }
  if (text_only.every == 0) text_only.every = batch.global;
  const std::int64_t step = batch.micro * dp;
  if (batch.global % text_only.every != 0)
    report("/batch/text_only/every",
           fmt::format("{} does not divide the {} of a step", text_only.every, count_text(batch.global, "sample")));
  else if (text_only.samples >= text_only.every)
    report("/batch/text_only/samples",
           fmt::format("{} of {} leave no sample with items", text_only.samples, text_only.every));
  else if (text_only.samples % step != 0 || text_only.every % step != 0)
    report(text_only.samples % step != 0 ? "/batch/text_only/samples" : "/batch/text_only/every",
           fmt::format("{} is no multiple of micro {} · dp {} = {}: a micro-batch has items in all samples or in none",
                       text_only.samples % step != 0 ? text_only.samples : text_only.every, batch.micro, dp, step));
}

void check_training(const Scenario& s, const ReportAt& report) {
  const std::size_t sink = sink_module(s.model);
  if (s.loss.tokens == LossTokens::text && item_positions(s.model) == s.model[sink].shape.sequence)
    report("/loss/tokens", "no position is left that holds text: the edges bring the whole sequence",
           "smaller fractions, or \"all\"");
  bool trained = false;
  for (std::size_t v = 0; v < num_vertices(s.model); ++v) trained = trained || !s.model[v].frozen;
  if (!trained && s.pass == Pass::train)
    report("/model", "every module is frozen: nothing is trained", "\"pass\": \"forward\"");
}

void resolve_defaults(ScenarioForm& form, const InputFile& file) {
  Scenario& s = form.scenario;
  form.schema.clear();
  s.file = file.name;
  s.seed = static_cast<std::uint64_t>(form.seed);
  if (s.name.empty()) s.name = std::filesystem::path(file.name).stem().string();
  if (s.precision.activations == DType::uint8) s.precision.activations = s.precision.parameters;
  if (s.host.issue_s < 0) s.host.issue_s = s.cluster.node.device.host_issue_s;
}

}  // namespace

void resolve(ScenarioForm& form, const InputFile& file, Diagnostics& diagnostics) {
  const ReportAt report(file, diagnostics);
  Scenario& s = form.scenario;
  resolve_defaults(form, file);
  check_module_names(form, report);
  check_node(s.cluster, report);
  resolve_cost(s.cost, report);
  for (std::size_t i = 0; i < form.perturb.size(); ++i)
    if (const auto p = resolve_perturbation(form.perturb[i], s.cluster, pointer_to("/perturb", i), report))
      s.perturb.push_back(*p);
  for (auto& [name, module] : form.modules) resolve_shape(module.shape, pointer_to("/model", name), report);
  if (!diagnostics.empty()) return;
  resolve_graph(form, report);
  if (!diagnostics.empty()) return;
  resolve_hosts(form, report);
  if (!diagnostics.empty()) return;
  for (auto& [name, layout] : form.layouts) {
    for (const auto& [module_name, module] : form.modules)
      if (module_name == name) resolve_layout(form, module.shape, layout, pointer_to("/layout", name), report);
  }
  if (!diagnostics.empty()) return;
  resolve_hosted_layouts(form, report);
  resolve_text_only(s.batch, s.model, s.layout_by_module.front().dp, report);
  check_training(s, report);
  if (!diagnostics.empty()) return;
  for (std::size_t v = 0; v < num_vertices(s.model); ++v) check_limits(s, s.model[v], s.layout_by_module[v], report);
}

}  // namespace meshweave
