#include "sim/scenario/check_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/base/text.h"
#include "sim/scenario/json_document.h"

namespace meshweave {
namespace {

constexpr std::size_t most_modules = 32;
constexpr std::size_t most_edges = 256;

class GraphCheck {
 public:
  GraphCheck(ScenarioForm& form, const ReportAt& report) : form_(form), graph_(form.scenario.model), report_(report) {}

  // Each step needs what the one before it has established.
  void run() {
    if (add_vertices() && add_edges() && check_roles() && divide_positions()) resolve_widths();
  }

 private:
  std::string module_at(std::size_t v) const { return pointer_to("/model", graph_[v].name); }
  std::string edge_at(std::size_t e) const { return pointer_to("/edges", e); }
  std::string quoted(std::size_t v) const { return fmt::format("\"{}\"", graph_[v].name); }
  ModuleKind kind(std::size_t v) const { return graph_[v].shape.kind; }
  bool into_language(const EdgeOfModules& e) const { return kind(target(e, graph_)) == ModuleKind::language; }

  bool add_vertices() {
    if (form_.modules.size() > most_modules || form_.edges.size() > most_edges) {
      report_("/model",
              fmt::format("has {} and {} (at most {} and {})",
                          count_text(static_cast<std::int64_t>(form_.modules.size()), "module"),
                          count_text(static_cast<std::int64_t>(form_.edges.size()), "edge"), most_modules, most_edges));
      return false;
    }
    for (const auto& [name, module] : form_.modules) {
      Module vertex;
      vertex.name = name;
      vertex.shape = module.shape;
      vertex.frozen = module.frozen;
      vertex.cp_items = module.cp_items;
      add_vertex(std::move(vertex), graph_);
    }
    return true;
  }

  std::optional<std::size_t> find_vertex(const std::string& name, const std::string& at) {
    std::vector<std::string> names;
    for (const auto& [each, module] : form_.modules) {
      if (each == name) return names.size();
      names.push_back(each);
    }
    report_(at, fmt::format("there is no module \"{}\"", name),
            fmt::format("the modules are {}", fmt::join(names, ", ")));
    return std::nullopt;
  }

  bool add_edges() {
    const std::size_t before = report_.count();
    for (std::size_t i = 0; i < form_.edges.size(); ++i) {
      const EdgeForm& edge = form_.edges[i];
      const auto from = find_vertex(edge.from, edge_at(i) + "/from");
      const auto to = find_vertex(edge.to, edge_at(i) + "/to");
      if (!from || !to) continue;
      if (boost::edge(*from, *to, graph_).second)
        report_(edge_at(i), fmt::format("the edge from {} to {} stands twice", quoted(*from), quoted(*to)));
      edges_.push_back(boost::add_edge(*from, *to, graph_).first);
    }
    if (report_.count() != before) return false;
    if (form_.modules.size() > 1 && form_.edges.empty()) {
      report_("/model", "several modules need \"edges\" (which module feeds which)",
              "\"edges\": [ [ \"vision\", \"projector\" ], [ \"projector\", \"language\" ] ]");
      return false;
    }
    const std::vector<std::size_t> cycle = find_cycle(graph_);
    if (cycle.empty()) return true;
    std::vector<std::string> names;
    for (const std::size_t v : cycle) names.push_back(graph_[v].name);
    report_("/edges", fmt::format("{} (a graph without cycles is trained)",
                                  cycle.size() == 2 ? fmt::format("{} feeds itself", quoted(cycle[0]))
                                                    : fmt::format("form a cycle: {}", fmt::join(names, " -> "))));
    return false;
  }

  // One language model ends the graph; encoders begin it; a projector stands between one encoder and the language
  // model.
  bool check_roles() {
    const std::size_t before = report_.count();
    std::optional<std::size_t> language;
    for (std::size_t v = 0; v < num_vertices(graph_); ++v) {
      if (kind(v) != ModuleKind::language) continue;
      if (language)
        report_(module_at(v),
                fmt::format("is a second language model beside {} (one ends the graph)", quoted(*language)),
                "\"kind\": \"encoder\" makes an encoder of a shape");
      else
        language = v;
    }
    if (!language) report_("/model", "has no language model, in which the graph ends");
    for (std::size_t i = 0; i < edges_.size(); ++i) check_edge(i, source(edges_[i], graph_), target(edges_[i], graph_));
    for (std::size_t v = 0; v < num_vertices(graph_); ++v) {
      if (kind(v) == ModuleKind::language) continue;
      if (out_degree(v, graph_) == 0)
        report_(module_at(v), "feeds no module: the graph has a second end beside the language model",
                fmt::format("\"edges\" needs [ {}, ... ]", quoted(v)));
      if (kind(v) == ModuleKind::projector && in_degree(v, graph_) == 0)
        report_(module_at(v), "no edge leads into this projector (it stands behind an encoder)");
    }
    return report_.count() == before;
  }

  void check_edge(std::size_t i, std::size_t from, std::size_t to) {
    const EdgeForm& edge = form_.edges[i];
    if (kind(from) == ModuleKind::language)
      report_(edge_at(i),
              fmt::format("{} is the language model, in which the graph ends: it feeds no module", quoted(from)));
    if (kind(to) == ModuleKind::encoder)
      report_(edge_at(i), fmt::format("{} is an encoder: it takes items, not the rows of another module", quoted(to)));
    if (kind(to) == ModuleKind::projector && kind(from) == ModuleKind::projector)
      report_(edge_at(i), fmt::format("a projector stands behind an encoder ({} is a projector)", quoted(from)));
    if (kind(to) == ModuleKind::projector && inputs_of(graph_, to).front() != edges_[i])
      report_(edge_at(i),
              fmt::format("a second edge leads into {} (a projector stands behind one encoder)", quoted(to)));
    if (kind(to) == ModuleKind::language) return;
    if (!std::isnan(edge.fraction)) report_(edge_at(i) + "/fraction", "belongs to an edge into the language model");
    if (edge.merge != 0)
      report_(edge_at(i) + "/merge", "belongs to an edge into the language model (also where a projector merges)");
  }

  // The encoder at whose end the rows of an edge into the language model begin.
  std::size_t encoder_of(const EdgeOfModules& e) const {
    const std::size_t from = source(e, graph_);
    return kind(from) == ModuleKind::encoder ? from : source(inputs_of(graph_, from).front(), graph_);
  }

  // Positions of the language model's sequence over the edges into it, hence items per sample.
  bool divide_positions() {
    const std::size_t before = report_.count();
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      if (!into_language(edges_[i])) continue;
      if (form_.edges[i].merge == 0) form_.edges[i].merge = 1;
      if (!std::isnan(form_.edges[i].fraction)) take_fraction(i);
    }
    if (report_.count() != before) return false;
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      if (into_language(edges_[i]) && std::isnan(form_.edges[i].fraction)) take_items(i);
    }
    if (report_.count() != before) return false;
    const std::size_t sink = sink_module(graph_);
    std::int64_t first = 0;
    for (const EdgeOfModules e : inputs_of(graph_, sink)) {
      graph_[e].first = first;
      first += graph_[e].tokens;
    }
    if (first > graph_[sink].shape.sequence)
      report_("/edges",
              fmt::format("bring {} into the sequence of {} of {}", count_text(first, "token"),
                          graph_[sink].shape.sequence, quoted(sink)),
              "fractions add up to at most 1");
    return report_.count() == before;
  }

  // Rows that an item makes at the end of an edge; 0 after reporting that it makes no whole number.
  std::int64_t rows_of_item(std::size_t i, std::size_t encoder) {
    const std::int64_t tokens = graph_[encoder].shape.sequence;
    if (tokens % form_.edges[i].merge == 0) return tokens / form_.edges[i].merge;
    report_(edge_at(i) + "/merge",
            fmt::format("{} does not divide the {} of an item of {} ({} do)", form_.edges[i].merge,
                        count_text(tokens, "token"), quoted(encoder), divisors(tokens)));
    return 0;
  }

  ModuleForm& form_of(std::size_t v) { return form_.modules[v].second; }

  void take_fraction(std::size_t i) {
    const std::size_t encoder = encoder_of(edges_[i]);
    const std::int64_t rows = rows_of_item(i, encoder);
    if (rows == 0) return;
    const std::int64_t sequence = graph_[sink_module(graph_)].shape.sequence;
    const double exact = form_.edges[i].fraction * static_cast<double>(sequence);
    const auto tokens = static_cast<std::int64_t>(std::llround(exact));
    const std::int64_t items = tokens / rows;
    const bool whole = std::abs(exact - static_cast<double>(tokens)) <= 1e-6 && tokens > 0;
    if (!whole || tokens % rows != 0) {
      const std::int64_t nearest = std::clamp<std::int64_t>(std::llround(exact / static_cast<double>(rows)), 1,
                                                            std::max<std::int64_t>(1, sequence / rows));
      const double fits = static_cast<double>(nearest * rows) / static_cast<double>(sequence);
      report_(edge_at(i) + "/fraction",
              fmt::format("{} of {} tokens is {:g}, no whole number of items of {} (an item makes {})",
                          form_.edges[i].fraction, sequence, exact, quoted(encoder), count_text(rows, "token")),
              fits <= 1 ? fmt::format("{} is {}", fits, count_text(nearest, "item"))
                        : "an item makes more tokens than the language model has: \"merge\" makes fewer of them");
      return;
    }
    ModuleForm& module = form_of(encoder);
    if (module.items != 0 && module.items != items) {
      report_(edge_at(i) + "/fraction",
              fmt::format("is {} per sample, but {} has {}", count_text(items, "item"), quoted(encoder), module.items),
              fmt::format("{} is {}", static_cast<double>(module.items * rows) / static_cast<double>(sequence),
                          count_text(module.items, "item")));
      return;
    }
    module.items = items;
    graph_[edges_[i]].tokens = tokens;
    graph_[edges_[i]].fraction = form_.edges[i].fraction;
  }

  void take_items(std::size_t i) {
    const std::size_t encoder = encoder_of(edges_[i]);
    const std::int64_t items = form_of(encoder).items;
    if (items == 0) {
      report_(edge_at(i),
              fmt::format("how many items of {} a sample has is missing: \"fraction\" here, or its \"items\"",
                          quoted(encoder)));
      return;
    }
    const std::int64_t tokens = items * rows_of_item(i, encoder);
    const std::int64_t sequence = graph_[sink_module(graph_)].shape.sequence;
    if (tokens > sequence) {
      report_(edge_at(i), fmt::format("{} of {} bring {} into the sequence of {}", count_text(items, "item"),
                                      quoted(encoder), count_text(tokens, "token"), sequence));
      return;
    }
    graph_[edges_[i]].tokens = tokens;
    graph_[edges_[i]].fraction = form_.edges[i].fraction = static_cast<double>(tokens) / static_cast<double>(sequence);
  }

  // What merges, and how wide rows are. A merge happens where the rows leave the encoder: at the entrance of a
  // projector, or of the language model itself.
  void resolve_widths() {
    const std::int64_t width = graph_[sink_module(graph_)].shape.hidden;
    for (std::size_t v = 0; v < num_vertices(graph_); ++v) {
      if (kind(v) == ModuleKind::encoder) graph_[v].items = form_of(v).items;
    }
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      if (!into_language(edges_[i])) continue;
      const std::size_t from = source(edges_[i], graph_);
      const Module& encoder = graph_[encoder_of(edges_[i])];
      const std::int64_t merge = form_.edges[i].merge;
      if (kind(from) == ModuleKind::projector) {
        graph_[inputs_of(graph_, from).front()].merge = merge;
        Module& projector = graph_[from];
        TransformerShape& shape = projector.shape;
        shape.hidden = width;
        shape.input_width = merge * encoder.shape.hidden;
        shape.sequence = encoder.shape.sequence / merge;
        if (shape.ffn == 0) shape.ffn = form_of(from).shape.ffn = width;
        projector.items = encoder.items;
        projector.cp_items = encoder.cp_items;
        continue;
      }
      graph_[edges_[i]].merge = merge;
      if (merge * encoder.shape.hidden == width) continue;
      report_(edge_at(i),
              fmt::format("rows of {}{} features do not fit the language model's width of {}",
                          merge > 1 ? fmt::format("{} · ", merge) : "", encoder.shape.hidden, width),
              "a projector between them does: { \"zoo\": \"mlp-2\" }");
    }
  }

  ScenarioForm& form_;
  ModuleGraph& graph_;
  const ReportAt& report_;
  std::vector<EdgeOfModules> edges_;  // of the graph, as the form has them
};

}  // namespace

void resolve_graph(ScenarioForm& form, const ReportAt& report) { GraphCheck(form, report).run(); }

}  // namespace meshweave
