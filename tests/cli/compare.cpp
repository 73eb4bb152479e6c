// The command compare, from outside.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/cli/command_line.h"
#include "tests/cli/process.h"

using namespace meshweave;
using namespace meshweave::testing;
using Json = nlohmann::json;

namespace {

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse_command_line(arguments);
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "accepted";
}

std::string with(const std::string& old, const std::string& value) {
  std::string text = small_scenario;
  const std::size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old.size(), value);
}

std::int64_t sum_of(const Json& parts) {
  std::int64_t sum = 0;
  for (const Json& part : parts) sum += part["change_ps"].get<std::int64_t>();
  return sum;
}

Json compared(const std::string& a, const std::string& b) {
  const Finished run = meshweave_command({"compare", a, b, "--json"});
  INFO(run.err);
  REQUIRE(run.code == 0);
  return Json::parse(run.out);
}

}  // namespace

TEST_CASE("compare --json has parts that add up to the change of the step") {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.json", small_scenario);
  const std::string b =
      folder.write("b.json", with(R"("pp": 4, "dp": 2)", R"("pp": 4, "vpp": 2, "dp": 2, "recompute": "full")"));
  const Json json = compared(a, b);
  const std::int64_t change = json["change"]["step_time_ps"];
  CHECK(change != 0);
  CHECK(change == json["b"]["step_time_ps"].get<std::int64_t>() - json["a"]["step_time_ps"].get<std::int64_t>());
  CHECK(sum_of(json["parts"]) == change);
  CHECK(sum_of(json["groups"]) == change);
  CHECK(json["a"]["kind"] == "scenario");
  CHECK(json["a"]["gpus"] == 16);
  CHECK(json["ratio"]["gpus"] == 1);
  CHECK(json["stages"].size() == 4);
  CHECK(json["stages"][3]["b"]["ranks"] == 4);
  bool recompute = false;
  for (const Json& setting : json["settings"]) {
    if (setting["pointer"] != "/layout/language/recompute") continue;
    recompute = true;
    CHECK(setting["a"] == "none");
    CHECK(setting["b"] == "full");
  }
  CHECK(recompute);
  const Json report = Json::parse(meshweave_command({"run", b, "--json", "--no-timing"}).out);
  CHECK(json["b"]["step_time_s"] == report["step_time_s"]);
  CHECK(json["b"]["peak_memory_bytes"] == report["peak_memory_bytes"]);
}

TEST_CASE("compare prints a page, with every stage alone where the numbers of stages differ") {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.json", small_scenario);
  const std::string b = folder.write("b.json", with(R"("pp": 4, "dp": 2)", R"("pp": 2, "dp": 4)"));
  const Finished page = meshweave_command({"compare", a, b});
  CHECK(page.code == 0);
  CHECK(page.err.empty());
  for (const std::string& text :
       {"A  small (" + a + ")", "B  small (" + b + ")", std::string("/layout/language/pp      4"),
        std::string("where the change comes from"), std::string("bubble"), std::string("step time"),
        std::string("language 3  A"), std::string("language 1  B")}) {
    INFO(text);
    CHECK(page.out.find(text) != std::string::npos);
  }
  CHECK(page.out.find("B − A") == std::string::npos);
  CHECK(meshweave_command({"compare", a, a}).out.find("no part of the step differs\n") != std::string::npos);
}

TEST_CASE("compare takes traces, compressed or not, and mixes them with scenarios") {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.json", small_scenario);
  for (const char* name : {"t.json", "t.json.gz"}) {
    const std::string trace = folder.file(name);
    REQUIRE(meshweave_command({"run", a, "--trace", trace}).code == 0);
    const Json json = compared(a, trace);
    CHECK(json["b"]["kind"] == "trace");
    CHECK(std::abs(json["change"]["step_time_ps"].get<std::int64_t>()) < 2000);
    CHECK(json["settings"].empty());
    CHECK(json["ratio"]["peak_memory_bytes"] == 1);
    const Json same = compared(trace, trace);
    for (const Json& part : same["parts"]) CHECK(part["change_ps"] == 0);
    const Finished page = meshweave_command({"compare", trace, a});
    CHECK(page.out.find("no part of the step differs by more than 0.001 % of it") != std::string::npos);
  }
}

TEST_CASE("compare simulates with the executor asked for, and refuses it where nothing is simulated") {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.json", small_scenario);
  const std::string trace = folder.file("t.json");
  REQUIRE(meshweave_command({"run", a, "--trace", trace}).code == 0);
  const Finished mixed = meshweave_command({"compare", trace, a, "--executor", "simgrid"});
  CHECK(mixed.code == 0);
  CHECK(mixed.out.find("A is of the executor analytic, B of simgrid") != std::string::npos);
  const Finished refused = meshweave_command({"compare", trace, trace, "--executor", "analytic"});
  CHECK(refused.code == 2);
  CHECK(refused.err ==
        "error: --executor has no effect: both are traces, and nothing is simulated\n  hint: leave it out\n");
}

TEST_CASE("compare answers bad files as the other commands do") {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.json", small_scenario);
  const auto fails = [&](const std::string& file, int code, const std::string& message) {
    for (const auto& arguments : {std::vector<std::string>{"compare", good, file}, {"compare", file, good}}) {
      const Finished run = meshweave_command(arguments);
      INFO(run.err);
      CHECK(run.code == code);
      CHECK(run.out.empty());
      CHECK(run.err.find(message) != std::string::npos);
    }
  };
  fails(folder.file("none.json"), 4, "none.json: No such file");
  fails(folder.path(), 4, "it is a folder, and a file is expected here");
  fails(folder.write("empty.json", "{}"), 3, "empty.json:1:1: error: ");
  fails(folder.write("other.json", R"({"traceEvents": [{"ph": "X", "name": "a"}]})"), 3, "other.json: error: ");
  fails(folder.write("cut.json", R"({"displayTimeUnit": "ns", "meshweave": {)"), 3,
        "cut.json: error: not a trace of meshweave");
  fails(folder.write("broken.gz", "\x1f\x8b nothing"), 4, "broken.gz: cannot be read");
  const std::string window = folder.file("window.json");
  REQUIRE(meshweave_command({"run", good, "--trace", window, "--window", "1 ms,2 ms"}).code == 0);
  fails(window, 3, "window.json: error: a part of the step is missing");
  const std::string numbers = folder.file("numbers.json");
  REQUIRE(meshweave_command({"emulate", good, "--model-scale", "tiny", "--trace", numbers}).code == 0);
  fails(numbers, 3, "numbers.json: error: a trace of an emulation has the order of the ops, but no times to compare");
  const Finished json = meshweave_command({"compare", good, window, "--json"});
  CHECK(json.code == 3);
  CHECK(Json::parse(json.err)["errors"][0]["file"] == window);
}

TEST_CASE("compare takes two runs and no options without effect") {
  CHECK(refusal({"compare", "a.json", "b.json"}) == "accepted");
  CHECK(refusal({"compare", "a.json"}).find("meshweave compare --help") != std::string::npos);
  CHECK(refusal({"compare", "a.json", "b.json", "c.json"}).find("received 3") != std::string::npos);
  CHECK(refusal({"compare", "a.json", "b.json", "--vary=/batch/micro=1"}).find("unexpected argument") !=
        std::string::npos);
  CHECK(refusal({"compare", "a.json", "b.json", "--executor", "x"}).find("unknown executor") != std::string::npos);
  CHECK(parse_command_line({"compare", "--help"}).help.find("--executor") != std::string::npos);
}
