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
    if (path.extension() == ".json" && path.parent_path().filename() != "schema") files.push_back(path.string());
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

TEST_CASE("Every shipped scenario, made tiny, trains as the reference does") { check_shipped(true); }

TEST_CASE("Every shipped scenario, made tiny, trains as the reference does: long ones", "[long]") {
  check_shipped(false);
}

TEST_CASE("A tiny scenario writes itself as the resolved one, which reads back and is not made smaller") {
  for (const std::string& file : shipped_scenarios()) {
    CAPTURE(file);
    const Scenario tiny = tiny_scenario(read_scenario(file, {}));
    const Scenario back = parse_scenario(tiny.resolved_json, file);
    CHECK(back.resolved_json == tiny.resolved_json);
    CHECK(tiny_scenario(back).resolved_json == tiny.resolved_json);
    CHECK(back.seed == tiny.seed);
    CHECK(back.model[0].shape.hidden == tiny.model[0].shape.hidden);
    CHECK(back.layout_by_module[0].stages == tiny.layout_by_module[0].stages);
  }
}

TEST_CASE("Tiny is never larger than what was given") {
  const auto made_tiny = [](const std::string& model, const std::string& layout, const std::string& overlap) {
    const std::string text = R"({ "cluster": { "node": { "base": "hgx-h100", "gpus": 4 }, "nodes": 1 },
      "model": { "language": {)" +
                             model + R"(} }, "batch": { "global": 4, "micro": 1 },
      "layout": { "language": {)" +
                             layout + R"(} }, "overlap": {)" + overlap + R"(} })";
    return tiny_scenario(parse_scenario(text, "small.json"));
  };
  // Everything is below the tiny sizes: hidden 16, head_dim 4, ffn 4 · tp = 8, 30 tokens, sequence 8.
  Scenario s = made_tiny(R"("hidden": 8, "layers": 2, "heads": 4, "head_dim": 2, "ffn": 4, "vocabulary": 7,
      "vocabulary_multiple": 3, "sequence": 2)",
                         R"("tp": 2, "pp": 2, "dp": 1, "sequence_parallel": true)", "");
  const TransformerShape& m = s.model[0].shape;
  CHECK(m.hidden == 8);
  CHECK(m.layers == 2);
  CHECK(m.kv_heads == 4);  // more than one each for tp 2: two each
  CHECK(m.heads == 4);
  CHECK(m.head_dim == 2);
  CHECK(m.ffn == 4);
  CHECK(m.vocabulary == 7);
  CHECK(m.vocabulary_multiple == 3);
  CHECK(m.sequence == 2);
  CHECK(m.max_positions == 2);
  CHECK(s.batch.global == 4);  // 4 micro-batches of 1: no more than 2 · pp · vpp
  const PreparedProgram p(s);
  CHECK(emulate(p.input(), {}).matches);

  // Where it is above, it becomes the tiny size. A multiple of 6 becomes 3, its largest divisor up to 4; tp 4 with 4
  // chunks divides no sequence below 16.
  s = made_tiny(R"("hidden": 256, "layers": 2, "heads": 16, "ffn": 1024, "vocabulary": 100, "vocabulary_multiple": 6,
      "sequence": 64)",
                R"("tp": 4, "dp": 1, "sequence_parallel": true)", R"("tp": true, "tp_chunks": 4)");
  const TransformerShape& large = s.model[0].shape;
  CHECK(large.hidden == 16);
  CHECK(large.heads == 8);
  CHECK(large.head_dim == 4);
  CHECK(large.ffn == 16);
  CHECK(large.vocabulary == 30);
  CHECK(large.vocabulary_multiple == 3);
  CHECK(large.sequence == 16);
  CHECK(s.batch.global == 2);  // 2 · pp · vpp micro-batches of 1
}

TEST_CASE("Tiny and full programs have the same kinds of ops on the same streams and groups") {
  for (const std::string& file : shipped_scenarios()) {
    CAPTURE(file);
    const Scenario full = read_scenario(file, {});
    const Scenario tiny = tiny_scenario(full);
    CHECK(ingredients(lower(tiny, make_plan(tiny))) == ingredients(lower(full, make_plan(full))));
  }
}
