#include "sim/scenario/reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/sha256.h"
#include "sim/scenario/checks.h"
#include "sim/scenario/field_reader.h"
#include "sim/scenario/form_of.h"
#include "sim/scenario/schema_writer.h"

namespace meshweave {
namespace {

// The file that `reference`, found in `from`, names.
std::string follow(const std::string& from, const std::string& reference) {
  return (std::filesystem::path(from).parent_path() / reference).lexically_normal().string();
}

// Follows the chain of baselines, which must end; their contents are read when they are compared.
void check_baselines(const ScenarioForm& form, const InputFile& file, Diagnostics& diagnostics,
                     std::vector<std::pair<std::string, std::string>>& inputs) {
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
    inputs.emplace_back(path, sha256(baseline.text));
    if (!parse_input(baseline, diagnostics)) return;
    const Json* further = baseline.root.find("baseline");
    next = further ? further->text : "";
  }
}

// What a table of results seldom publishes, and what another value of keeps comparable with it.
bool may_be_unpublished(std::string_view pointer) {
  const auto keys = split_pointer(pointer);
  const std::string& root = keys->front();
  const std::string& last = keys->back();
  if (root == "batch") return last == "micro";
  if (root == "layout") return last == "vpp" || last == "recompute" || last == "stages";
  return root != "cluster" && root != "model" && root != "pass" && root != "precision" && root != "perturb";
}

// The pointer of the first value by which `changed` is another scenario than the one whose result is published.
std::string first_published_difference(const Json& published, const Json& changed, const std::string& at = {}) {
  if (published.is(Json::Kind::object) && changed.is(Json::Kind::object)) {
    for (std::size_t i = 0; i < changed.keys.size(); ++i) {
      static const Json nothing;
      const Json* before = published.find(changed.keys[i]);
      std::string found =
          first_published_difference(before ? *before : nothing, changed.items[i], pointer_to(at, changed.keys[i]));
      if (!found.empty()) return found;
    }
    return {};
  }
  if (published.is(Json::Kind::null) && changed.is(Json::Kind::object)) {
    return first_published_difference(Json::make_object(), changed, at);
  }
  return may_be_unpublished(at) || format_json(published) == format_json(changed) ? std::string() : at;
}

Scenario to_scenario(ScenarioForm& form, std::vector<std::pair<std::string, std::string>> inputs) {
  Scenario scenario = form.scenario;
  if (scenario.cost.kind == CostKind::model) scenario.cost = CostSettings{};
  if (!form.published.source.empty()) scenario.published = form.published;
  scenario.inputs = std::move(inputs);
  scenario.resolved_json = resolved_text(form);
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
  ScenarioForm form;
  if (parse_input(file, reading.diagnostics)) {
    const Json as_published = file.root.find("published") && !overrides.empty() ? file.root : Json();
    apply_overrides(file, overrides, reading.diagnostics);
    if (as_published.is(Json::Kind::object)) {
      form.published.differs_at = first_published_difference(as_published, file.root);
    }
  }
  reading.diagnostics.throw_if_any();
  FieldReader::read(reading, file, [&](Fields& fields) { scenario_fields(fields, form); });
  reading.diagnostics.throw_if_any();
  check_baselines(form, file, reading.diagnostics, reading.inputs);
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
