#include "sim/scenario/check_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/text.h"
#include "sim/scenario/json_document.h"

namespace meshweave {
namespace {

const LayoutForm* find_layout(const ScenarioForm& form, const std::string& name) {
  for (const auto& [each, layout] : form.layouts)
    if (each == name) return &layout;
  return nullptr;
}

int find_module(const ModuleGraph& graph, const std::string& name) {
  for (std::size_t v = 0; v < num_vertices(graph); ++v)
    if (graph[v].name == name) return static_cast<int>(v);
  return -1;
}

// The hosts that the file names; −1 where there is none.
std::vector<int> named_hosts(const ScenarioForm& form, const ReportAt& report) {
  const ModuleGraph& graph = form.scenario.model;
  std::vector<int> hosts;
  std::vector<std::string> names;
  for (const auto& [name, module] : form.modules) names.push_back(name);
  for (std::size_t v = 0; v < num_vertices(graph); ++v) {
    const std::string& host = form.modules[v].second.inside;
    const std::string at = pointer_to("/model", graph[v].name) + "/inside";
    const int found = host.empty() ? -1 : find_module(graph, host);
    hosts.push_back(found);
    if (host.empty()) continue;
    if (graph[v].shape.kind == ModuleKind::language)
      report(at, "the language model has a layout of its own: others stand inside it");
    else if (found < 0)
      report(at, fmt::format("there is no module \"{}\"", host),
             fmt::format("the modules are {}", fmt::join(names, ", ")));
    else if (found == static_cast<int>(v))
      report(at, "a module cannot stand inside itself");
  }
  return hosts;
}

// Follows the hosts from `v` to one that stands inside no other.
void resolve_host(ScenarioForm& form, const std::vector<int>& hosts, std::size_t v, const ReportAt& report) {
  ModuleGraph& graph = form.scenario.model;
  const std::string at = pointer_to("/model", graph[v].name) + "/inside";
  std::vector<std::string> path{graph[v].name};
  std::size_t hosted = v;  // directly inside `host`
  auto host = static_cast<std::size_t>(hosts[v]);
  while (true) {
    const bool circle = std::find(path.begin(), path.end(), graph[host].name) != path.end();
    path.push_back(graph[host].name);
    if (circle) {
      report(at, fmt::format("the modules stand inside one another in a circle: {}", fmt::join(path, " -> ")));
      return;
    }
    if (hosts[host] < 0) break;
    hosted = host;
    host = static_cast<std::size_t>(hosts[host]);
  }
  const auto direct = static_cast<std::size_t>(hosts[v]);
  if (!precedes(graph, v, direct) && !precedes(graph, direct, v)) {
    report(at, fmt::format("\"{}\" neither feeds \"{}\" nor is fed by it: it has no place among its stages",
                           graph[v].name, graph[direct].name));
    return;
  }
  graph[v].inside = static_cast<int>(host);
  // A host's host decides where all that stands in it stands.
  graph[v].host_stage = precedes(graph, hosted, host) ? HostStage::first : HostStage::last;
}

bool covers(const ModuleLayout& layout, const Cluster& cluster) {
  return layout.rank_offset == 0 && (layout.rank_count == 0 || layout.rank_count == cluster.ranks());
}

// Its own layout, or a host's, and not both.
void check_placement(const ScenarioForm& form, std::size_t v, const ReportAt& report) {
  const ModuleGraph& graph = form.scenario.model;
  const ModuleForm& module = form.modules[v].second;
  const std::string& name = graph[v].name;
  const LayoutForm* layout = find_layout(form, name);
  if (!module.inside.empty()) {
    if (layout && graph[v].shape.kind != ModuleKind::language)
      report.at_key(pointer_to("/layout", name),
                    fmt::format("\"{}\" stands inside \"{}\", whose layout it has", name, module.inside),
                    "leave the layout out; \"recompute\" may stand beside \"inside\"");
    return;
  }
  if (module.recompute != unset_recompute)
    report(pointer_to("/model", name) + "/recompute", "belongs to a module inside another",
           fmt::format("a module with a layout has it there: /layout/{}/recompute", name));
  if (!layout) {
    report("/layout", fmt::format("\"{}\" is missing (every module has a layout, or stands \"inside\" another)", name));
  } else if (num_vertices(graph) > 1 && graph[v].shape.kind != ModuleKind::language) {
    report.at_key(pointer_to("/layout", name),
                  "a later version places modules on their own ranks (this one has all inside the language model)",
                  fmt::format("\"inside\" of \"{}\" names its host", name));
  } else if (num_vertices(graph) > 1 && !covers(layout->layout, form.scenario.cluster)) {
    report(pointer_to("/layout", name) + "/ranks",
           "a later version places modules on their own ranks (in this one all share the cluster)", "leave it out");
  }
}

// The divisor of `n` that is nearest to `wanted`, the smaller one of two.
std::int64_t nearest_divisor(std::int64_t n, std::int64_t wanted) {
  std::int64_t nearest = 1;
  for (std::int64_t d = 1; d <= n && d <= 2 * wanted; ++d)
    if (n % d == 0 && std::abs(d - wanted) < std::abs(nearest - wanted)) nearest = d;
  return nearest;
}

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Heads are divided over tp, or padded until they are.
void check_heads(Module& module, const ModuleForm& form, const ModuleLayout& host, const std::string& host_name,
                 const std::string& at, const ReportAt& report) {
  TransformerShape& shape = module.shape;
  if (!shape.attends()) return;
  if (form.pad_heads) {
    if (shape.kv_heads != shape.heads) {
      report(at + "/pad_heads",
             fmt::format("heads that share keys are not padded ({} for {})",
                         count_text(shape.kv_heads, "key-value head"), count_text(shape.heads, "head")));
      return;
    }
    const std::int64_t padded = rounded_up(shape.heads, host.tp);
    shape.padded_heads = padded - shape.heads;
    shape.heads = shape.kv_heads = padded;
    return;
  }
  const std::int64_t legal = nearest_divisor(shape.kv_heads, host.tp);
  if (shape.heads % host.tp != 0 && shape.kv_heads == shape.heads) {
    report(at + "/inside",
           fmt::format("tp {} of \"{}\" does not divide the {} (nearest that does: tp {})", host.tp, host_name,
                       count_text(shape.heads, "attention head"), legal),
           fmt::format("\"pad_heads\": true computes {} heads", rounded_up(shape.heads, host.tp)));
  } else if (shape.kv_heads % host.tp != 0) {
    report(at + "/inside", fmt::format("tp {} of \"{}\" does not divide the {} (nearest that does: tp {})", host.tp,
                                       host_name, count_text(shape.kv_heads, "key-value head"), legal));
  }
}

void check_fit(const Scenario& s, Module& module, const ModuleForm& form, const ModuleLayout& host,
               const std::string& host_name, const ReportAt& report) {
  const std::string at = pointer_to("/model", module.name);
  if (host.tsp.degree > 1) {
    report(at + "/inside",
           fmt::format("\"{}\" is laid out by tsp: a module inside it is not supported by this version", host_name),
           "tp and cp carry modules inside");
    return;
  }
  check_heads(module, form, host, host_name, at, report);
  if (module.shape.ffn % host.tp != 0)
    report(at + "/inside", fmt::format("tp {} of \"{}\" does not divide ffn = {} (nearest that does: tp {})", host.tp,
                                       host_name, module.shape.ffn, nearest_divisor(module.shape.ffn, host.tp)));
  const std::int64_t items = module.items * s.batch.micro;
  if (module.shape.kind == ModuleKind::encoder && module.cp_items == CpItems::divided && items % host.cp.degree != 0)
    report(at + "/cp_items",
           fmt::format("cp {} of \"{}\" does not divide the {} of a micro-batch: it would cut an item ({} do)",
                       host.cp.degree, host_name, count_text(items, "item"), divisors(items)),
           "\"replicated\" computes all items on every rank");
}

ModuleLayout hosted_layout(const ModuleLayout& host, const Module& module, Recompute recompute) {
  ModuleLayout layout = host;
  layout.sequence_parallel = false;
  layout.recompute = recompute;
  layout.keep = Keep::nothing;
  std::fill(layout.stages.begin(), layout.stages.end(), 0);
  const auto layers = static_cast<int>(module.shape.layers);
  (module.host_stage == HostStage::first ? layout.stages.front() : layout.stages.back()) = layers;
  return layout;
}

}  // namespace

void resolve_hosts(ScenarioForm& form, const ReportAt& report) {
  const std::size_t before = report.count();
  const std::vector<int> hosts = named_hosts(form, report);
  for (std::size_t v = 0; v < hosts.size(); ++v) check_placement(form, v, report);
  if (report.count() != before) return;
  for (std::size_t v = 0; v < hosts.size(); ++v)
    if (hosts[v] >= 0) resolve_host(form, hosts, v, report);
}

void resolve_hosted_layouts(ScenarioForm& form, const ReportAt& report) {
  Scenario& s = form.scenario;
  for (std::size_t v = 0; v < num_vertices(s.model); ++v) {
    Module& module = s.model[v];
    if (!module.hosted()) {
      s.layout_by_module.push_back(find_layout(form, module.name)->layout);
      continue;
    }
    const std::string& host_name = s.model[static_cast<std::size_t>(module.inside)].name;
    const ModuleLayout& host = find_layout(form, host_name)->layout;
    ModuleForm& own = form.modules[v].second;
    if (own.recompute == unset_recompute) own.recompute = host.recompute;
    check_fit(s, module, own, host, host_name, report);
    s.layout_by_module.push_back(hosted_layout(host, module, own.recompute));
  }
}

}  // namespace meshweave
