#include "sim/scenario/reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/sha256.h"
#include "sim/scenario/checks.h"
#include "sim/scenario/field_reader.h"
#include "sim/scenario/field_writer.h"
#include "sim/scenario/schema_writer.h"

namespace meshweave {
namespace {

// The file that `reference`, found in `from`, names.
std::string follow(const std::string& from, const std::string& reference) {
  return (std::filesystem::path(from).parent_path() / reference).lexically_normal().string();
}

// Follows the chain of baselines, which must end; their contents are read when they are compared.
void check_baselines(const ScenarioForm& form, const InputFile& file, Diagnostics& diagnostics) {
  std::vector<std::string> chain{std::filesystem::path(file.name).lexically_normal().string()};
  std::string next = form.baseline;
  while (!next.empty()) {
    const std::string path = follow(chain.back(), next);
    const bool loop = std::find(chain.begin(), chain.end(), path) != chain.end();
    chain.push_back(path);
    if (loop) {
      diagnostics.at_value(file, "/baseline", fmt::format("the references form a loop: {}", fmt::join(chain, " -> ")));
      return;
    }
    std::error_code ignored;  // what cannot be looked at is not there
    if (!std::filesystem::is_regular_file(path, ignored)) {
      diagnostics.at_value(file, "/baseline", fmt::format("there is no file {}", path));
      return;
    }
    InputFile baseline;
    baseline.name = path;
    baseline.text = read_text_file(path);
    if (!parse_input(baseline, diagnostics)) return;
    const Json* further = baseline.root.find("baseline");
    next = further ? further->text : "";
  }
}

Scenario to_scenario(ScenarioForm& form, std::vector<std::pair<std::string, std::string>> inputs) {
  Scenario scenario = form.scenario;
  for (const auto& [name, shape] : form.modules) add_vertex(Module{name, shape}, scenario.model);
  for (const auto& [name, layout] : form.layouts) scenario.layout_by_module.push_back(layout.layout);
  if (scenario.cost.kind == CostKind::model) scenario.cost = CostSettings{};
  if (!form.published.source.empty()) scenario.published = form.published;
  scenario.inputs = std::move(inputs);
  scenario.resolved_json = format_json(FieldWriter::write([&](Fields& fields) { scenario_fields(fields, form); }));
  return scenario;
}

}  // namespace

Scenario read_scenario(const std::string& path, const std::vector<Override>& overrides) {
  return parse_scenario(read_text_file(path), path, overrides);
}

Scenario parse_scenario(std::string_view text, const std::string& path, const std::vector<Override>& overrides) {
  InputFile file;
  file.name = path;
  file.text = text;
  Reading reading;
  reading.inputs.emplace_back(path, sha256(text));
  if (parse_input(file, reading.diagnostics)) apply_overrides(file, overrides, reading.diagnostics);
  reading.diagnostics.throw_if_any();
  ScenarioForm form;
  FieldReader::read(reading, file, [&](Fields& fields) { scenario_fields(fields, form); });
  reading.diagnostics.throw_if_any();
  check_baselines(form, file, reading.diagnostics);
  resolve(form, file, reading.diagnostics);
  reading.diagnostics.throw_if_any();
  return to_scenario(form, std::move(reading.inputs));
}

std::string scenario_schema() {
  ScenarioForm defaults;
  const Json schema =
      SchemaWriter::write("Meshweave scenario", [&](Fields& fields) { scenario_fields(fields, defaults); });
  return format_json(schema) + "\n";
}

}  // namespace meshweave
