#include "sim/scenario/form_of.h"

#include "sim/scenario/field_writer.h"

namespace meshweave {
namespace {

ModuleForm form_of_module(const ModuleGraph& graph, std::size_t v, const ModuleLayout& layout) {
  const Module& module = graph[v];
  ModuleForm form;
  form.shape = module.shape;
  form.shape.heads -= module.shape.padded_heads;
  if (module.shape.padded_heads > 0) form.shape.kv_heads = form.shape.heads;
  form.pad_heads = module.shape.padded_heads > 0;
  form.shape.padded_heads = 0;
  form.items = module.items;
  form.cp_items = module.cp_items;
  form.frozen = module.frozen;
  if (!module.hosted()) return form;
  form.inside = graph[static_cast<std::size_t>(module.inside)].name;
  form.recompute = layout.recompute;
  return form;
}

// What merges stands, in a file, at the edge into the language model.
EdgeForm form_of_edge(const ModuleGraph& graph, const EdgeOfModules& e) {
  const std::size_t from = source(e, graph);
  EdgeForm form;
  form.from = graph[from].name;
  form.to = graph[target(e, graph)].name;
  if (graph[target(e, graph)].shape.kind != ModuleKind::language) return form;
  form.fraction = graph[e].fraction;
  form.merge = graph[graph[from].shape.kind == ModuleKind::projector ? inputs_of(graph, from).front() : e].merge;
  return form;
}

}  // namespace

ScenarioForm form_of(const Scenario& scenario) {
  const ModuleGraph& graph = scenario.model;
  ScenarioForm form;
  const CostSettings unset = form.scenario.cost;
  form.scenario = scenario;
  if (scenario.cost.kind == CostKind::model) form.scenario.cost = unset;
  form.seed = static_cast<std::int64_t>(scenario.seed);
  for (std::size_t v = 0; v < num_vertices(graph); ++v) {
    const ModuleLayout& layout = scenario.layout_by_module[v];
    form.modules.emplace_back(graph[v].name, form_of_module(graph, v, layout));
    if (!graph[v].hosted()) form.layouts.emplace_back(graph[v].name, LayoutForm()).second.layout = layout;
  }
  const auto [begin, end] = edges(graph);
  for (auto e = begin; e != end; ++e) form.edges.push_back(form_of_edge(graph, *e));
  return form;
}

std::string resolved_text(ScenarioForm& form) {
  return format_json(FieldWriter::write([&](Fields& fields) { scenario_fields(fields, form); }));
}

}  // namespace meshweave
