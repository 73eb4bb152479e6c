// Every shipped scenario, made tiny, trains as the reference does and has the kinds of ops that it had.
#include "sim/emulate/tiny.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "sim/scenario/reader.h"
#include "tests/emulate/prepared_program.h"

using namespace meshweave;
using testing::PreparedProgram;

namespace {

std::vector<std::string> shipped_scenarios() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(MESHWEAVE_SOURCE_DIR "/scenarios")) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() == ".json" && path.parent_path().filename() != "schema")
      files.push_back(path.string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// What a program consists of: kind of op, stream, axes of the group.
std::set<std::string> ingredients(const Program& program) {
  std::set<std::string> found;
  for (const Body& body : program.bodies) {
    for (const Op& op : body.ops) {
      const OpSpec& spec = program.spec(op);
      found.insert(std::string(name_of(spec.kind)) + " on " + program.streams[spec.stream].name +
                   (spec.group == no_group ? "" : " over " + names_of(program.groups[spec.group].axes())));
    }
  }
  return found;
}

}  // namespace

namespace {

// The executions of ops of one step, by which a case is quick (a second) or long (minutes).
std::int64_t executions(const Program& program) {
  std::int64_t sum = 0;
  for (const std::uint32_t body : program.body_of_rank)
    sum += static_cast<std::int64_t>(program.bodies[body].ops.size());
  return sum;
}

void check_shipped(bool quick) {
  constexpr std::int64_t quick_executions = 400'000;
  // Scenarios that become the same program with the same settings run once.
  std::map<std::string, std::pair<std::string, Scenario>> different;
  for (const std::string& file : shipped_scenarios()) {
    const Scenario tiny = tiny_scenario(read_scenario(file, {}));
    const Program program = lower(tiny, make_plan(tiny));
    if ((executions(program) <= quick_executions) != quick) continue;
    std::string key = std::to_string(tiny.seed);
    for (const std::uint32_t body : program.body_of_rank) key += ' ' + std::to_string(body);
    for (const Body& body : program.bodies) {
      for (const Op& op : body.ops) key += ' ' + std::to_string(op.spec);
    }
    for (const OpSpec& spec : program.op_specs)
      key += spec.label + std::to_string(spec.attributes.scale) + std::to_string(spec.attributes.limit);
    for (const TensorSpec& spec : program.tensor_specs) key += spec.name + std::to_string(spec.elements());
    different.emplace(std::move(key), std::pair(file, tiny));
  }
  REQUIRE(different.size() >= 5);
  for (const auto& [key, value] : different) {
    CAPTURE(value.first);
    const PreparedProgram p(value.second);
    EmulationSettings settings;
    settings.steps = quick ? 2 : 1;
    settings.interpreter.threads = static_cast<int>(std::thread::hardware_concurrency());
    const EmulationReport r = emulate(p.input(), settings);
    CAPTURE(r.stuck, r.loss_error, r.gradient_error, r.update_error);
    CHECK(r.matches);
  }
}

}  // namespace

TEST_CASE("Every shipped scenario, made tiny, trains as the reference does") {
  check_shipped(true);
}

TEST_CASE("Every shipped scenario, made tiny, trains as the reference does: long ones", "[long]") {
  check_shipped(false);
}

TEST_CASE("Tiny and full programs have the same kinds of ops on the same streams and groups") {
  for (const std::string& file : shipped_scenarios()) {
    CAPTURE(file);
    const Scenario full = read_scenario(file, {});
    const Scenario tiny = tiny_scenario(full);
    CHECK(ingredients(lower(tiny, make_plan(tiny))) == ingredients(lower(full, make_plan(full))));
  }
}
