// From outside: what `meshweave run` suggests where a step does not fit.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

using namespace meshweave;
using namespace meshweave::testing;
using Json = nlohmann::json;

namespace {

// 18 bytes for each of 540 million parameters are 9.7 GB, the framework takes 3 GB: too much for this device.
const std::string scenario_of_12_gb = R"({
  "cluster": { "node": { "base": "hgx-h100", "gpus": 4, "device": { "base": "h100-sxm", "memory": "12 GB" } }, "nodes": 1 },
  "model": { "language": { "hidden": 2048, "layers": 8, "heads": 16, "vocabulary": 65536, "sequence": 1024 } },
  "batch": { "global": 16, "micro": 2 },
  "layout": { "language": { "dp": 4 } }
})";

}  // namespace

TEST_CASE("A step that does not fit is followed by the changes that make it fit, which keep what they promise") {
  const TemporaryFolder folder;
  const std::string path = folder.write("large.json", scenario_of_12_gb);
  const Finished json = meshweave_command({"run", path, "--json", "--no-timing"});
  REQUIRE(json.code == 0);
  const Json report = Json::parse(json.out);
  CHECK(report["fits"] == false);
  REQUIRE(report["suggestions"].size() >= 2);
  const Finished page = meshweave_command({"run", path, "--no-timing"});
  CHECK(page.code == 0);
  CHECK(page.err.empty());
  double before = 0;
  for (const Json& suggestion : report["suggestions"]) {
    std::vector<std::string> arguments{"run", path, "--json"};
    std::string options;
    for (const std::string setting : suggestion["set"]) {
      arguments.insert(arguments.end(), {"--set", setting});
      options += (options.empty() ? "--set " : " --set ") + setting;
    }
    INFO(options);
    CHECK(page.out.find("\n  " + options + " ") != std::string::npos);
    const Json copied = Json::parse(meshweave_command(arguments).out);
    CHECK(copied["fits"] == true);
    CHECK_FALSE(copied.contains("suggestions"));
    for (const char* key :
         {"step_time_s", "samples_per_s", "tokens_per_s", "peak_memory_bytes", "headroom_bytes", "verdict"}) {
      CHECK(copied[key] == suggestion[key]);
    }
    CHECK(suggestion["step_time_s"].get<double>() >= before);
    before = suggestion["step_time_s"].get<double>();
  }
}

TEST_CASE("Suggestions stand behind the options that the run was given, whatever executes it") {
  const TemporaryFolder folder;
  const std::string path = folder.write("large.json", scenario_of_12_gb);
  const std::vector<std::string> given{"--set", "/layout/language={\"tp\":1,\"pp\":1}", "--set", "/batch/micro=4"};
  const auto suggestions = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"run", path, "--json"};
    arguments.insert(arguments.end(), given.begin(), given.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Json::parse(meshweave_command(arguments).out)["suggestions"];
  };
  const Json first = suggestions({});
  CHECK(first.size() >= 2);
  CHECK(first.dump().find("micro=2") == std::string::npos);  // 2 does not fit, as the scenario itself does not
  CHECK(suggestions({"--executor", "simgrid"}) == first);
  CHECK(suggestions({"--no-fold"}) == first);
}

TEST_CASE("Nothing is suggested where the step fits, nor for the rows of a table") {
  const TemporaryFolder folder;
  const std::string small = folder.write("small.json", small_scenario);
  const Finished fits = meshweave_command({"run", small, "--progress", "always"});
  CHECK(fits.out.find("single change") == std::string::npos);
  CHECK(fits.err.find("does not fit") == std::string::npos);
  const Json report = Json::parse(meshweave_command({"run", small, "--json"}).out);
  for (const char* key : {"suggestions", "insufficient_changes", "impossible_changes"})
    CHECK_FALSE(report.contains(key));
  const std::string large = folder.write("large.json", scenario_of_12_gb);
  const Finished alone = meshweave_command({"run", large, "--progress", "always"});
  CHECK(alone.err.find("does not fit; try [1/") != std::string::npos);
  CHECK(meshweave_command({"run", large, small}).out.find("single change") == std::string::npos);
  const Json rows = Json::parse(meshweave_command({"run", large, "--vary", "/batch/micro=1,2", "--json"}).out);
  for (const Json& row : rows) CHECK_FALSE(row.contains("suggestions"));
}
