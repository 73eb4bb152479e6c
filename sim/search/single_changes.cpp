#include "sim/search/single_changes.h"

#include <fmt/format.h>

#include <string_view>

#include "sim/base/error.h"
#include "sim/scenario/json_document.h"

namespace meshweave {
namespace {

Override setting(const std::string& at, std::string_view key, std::string value) {
  return {pointer_to(at, key), std::move(value)};
}

Override setting(const std::string& at, std::string_view key, std::int64_t value) {
  return setting(at, key, fmt::format("{}", value));
}

// The layout of one module as `check` prints it. An axis is a degree, or an object with its degree and its settings.
class ResolvedLayout {
 public:
  ResolvedLayout(const Json& scenario, const std::string& module) {
    const Json* layouts = scenario.find("layout");
    layout_ = layouts ? layouts->find(module) : nullptr;
  }

  std::int64_t degree(std::string_view axis) const {
    const Json* value = find(axis);
    if (value && value->is(Json::Kind::object)) value = value->find("degree");
    return value && value->is(Json::Kind::integer) ? value->integer : 1;
  }

  // The value of the axis with another degree; the settings of one that is used stay.
  std::string with_degree(std::string_view axis, std::int64_t other) const {
    const Json* value = find(axis);
    if (degree(axis) == 1 || !value->is(Json::Kind::object)) return fmt::format("{}", other);
    Json changed = Json::make_object();
    for (std::size_t i = 0; i < value->items.size(); ++i) {
      // How many exchange heads follows from the degree.
      if (value->keys[i] == "ulysses") continue;
      changed.add(value->keys[i], value->keys[i] == "degree" ? Json::make(other) : value->items[i]);
    }
    return format_json_line(changed);
  }

 private:
  const Json* find(std::string_view axis) const { return layout_ ? layout_->find(axis) : nullptr; }

  const Json* layout_ = nullptr;
};

void add_recomputation(std::vector<Change>& changes, const std::string& at, Recompute now) {
  for (const Recompute more : {Recompute::selective, Recompute::full}) {
    if (more > now) changes.push_back({setting(at, "recompute", std::string(name_of(more)))});
  }
}

// A degree that doubles takes its ranks from dp. An odd dp cannot give them: the ranks do not add up then, as the
// reader finds.
Change with_half_dp(Override doubled, const std::string& at, int dp) {
  Change change{std::move(doubled)};
  if (dp % 2 == 0) change.push_back(setting(at, "dp", dp / 2));
  return change;
}

void add_tsp(std::vector<Change>& changes, const std::string& at, const ModuleLayout& layout,
             const ResolvedLayout& resolved) {
  const std::int64_t tsp = resolved.degree("tsp");
  const std::int64_t cp = resolved.degree("cp");
  const std::int64_t folded = layout.tp * cp;
  if (tsp > 1 || folded == 1) {
    changes.push_back(with_half_dp(setting(at, "tsp", resolved.with_degree("tsp", 2 * tsp)), at, layout.dp));
  } else {
    Change change{setting(at, "tsp", resolved.with_degree("tsp", folded))};
    if (layout.tp > 1) change.push_back(setting(at, "tp", 1));
    if (cp > 1) change.push_back(setting(at, "cp", 1));
    if (layout.sequence_parallel) change.push_back(setting(at, "sequence_parallel", "false"));
    changes.push_back(std::move(change));
  }
}

void add_degrees(std::vector<Change>& changes, const std::string& at, const ModuleLayout& layout,
                 const ResolvedLayout& resolved) {
  const std::string cp = resolved.with_degree("cp", 2 * resolved.degree("cp"));
  changes.push_back(with_half_dp(setting(at, "cp", cp), at, layout.dp));
  add_tsp(changes, at, layout, resolved);
  changes.push_back(with_half_dp(setting(at, "tp", 2 * layout.tp), at, layout.dp));
  changes.push_back(with_half_dp(setting(at, "pp", 2 * layout.pp), at, layout.dp));
}

// An argument as a POSIX shell reads it back.
std::string shell_word(std::string_view word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_-.=";
  if (word.find_first_not_of(plain) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

}  // namespace

std::vector<Change> single_changes(const Scenario& scenario) {
  JsonError ignored;  // a scenario without its text has plain degrees only
  const Json resolved = parse_json(scenario.resolved_json, ignored).value_or(Json());
  std::vector<Change> changes;
  if (scenario.batch.micro > 1) changes.push_back({setting("/batch", "micro", scenario.batch.micro / 2)});
  for (std::size_t v = 0; v < num_vertices(scenario.model); ++v) {
    const ModuleLayout& layout = scenario.layout_by_module[v];
    const std::string& module = scenario.model[v].name;
    const std::string at = pointer_to("/layout", module);
    // A forward pass alone computes nothing again and has no optimizer.
    if (scenario.pass == Pass::train) {
      add_recomputation(changes, at, layout.recompute);
      if (layout.zero == 0) changes.push_back({setting(at, "zero", 1)});
    }
    add_degrees(changes, at, layout, ResolvedLayout(resolved, module));
  }
  return changes;
}

std::string option_text(const Change& change) {
  std::string text;
  for (const Override& each : change) {
    text += fmt::format("{}--set {}", text.empty() ? "" : " ", shell_word(each.pointer + "=" + each.value));
  }
  return text;
}

}  // namespace meshweave
