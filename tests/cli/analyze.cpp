// The command analyze, from outside.
#include <boost/property_tree/xml_parser.hpp>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/cli/command_line.h"
#include "tests/cli/process.h"

using namespace meshweave;
using namespace meshweave::testing;
using Json = nlohmann::json;

namespace {

const std::string tp4_scenario = R"({
  "name": "small",
  "cluster": { "node": { "base": "mi300x-8", "gpus": 4 }, "nodes": 1 },
  "model": { "language": { "hidden": 512, "layers": 2, "heads": 8, "vocabulary": 1000, "sequence": 1024,
                           "position": "rope", "biases": "none" } },
  "batch": { "global": 1, "micro": 1 },
  "layout": { "language": { "tp": 4 } }
})";

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse_command_line(arguments);
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("analyze prints a row per strategy, the same each time and with any number of jobs") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", tp4_scenario);
  const Finished page = meshweave_command({"analyze", path, "--jobs", "1"});
  CHECK(page.code == 0);
  CHECK(page.err.empty());
  for (const char* text : {"DP ", "TP ", "SP ", "TP+SP (T=2, Σ=2)  tp 2 × cp 2 all-gather", "TSP ", "closed form",
                           "DP: global batch 4 in the place of 1"}) {
    INFO(text);
    CHECK(page.out.find(text) != std::string::npos);
  }
  CHECK(meshweave_command({"analyze", path, "--jobs", "3"}).out == page.out);
}

TEST_CASE("analyze --json has numbers in base units, whose parts add up") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", tp4_scenario);
  const Finished run = meshweave_command({"analyze", path, "--json", "--sequence", "512,1024"});
  REQUIRE(run.code == 0);
  const Json json = Json::parse(run.out);
  CHECK(json["devices"] == 4);
  REQUIRE(json["strategies"].size() == 5);
  for (const Json& row : json["strategies"]) {
    INFO(row["name"]);
    std::int64_t memory = 0;
    for (const auto& [key, value] : row["memory"].items()) {
      if (key != "total_bytes" && key != "device_bytes" && key != "verdict") memory += value.get<std::int64_t>();
    }
    CHECK(memory == row["memory"]["total_bytes"]);
    for (const char* parts : {"by_kind", "by_purpose"}) {
      double sum = 0;
      for (const auto& [key, value] : row["received_bytes"][parts].items()) sum += value.get<double>();
      CHECK(sum == row["received_bytes"]["total"].get<double>());
    }
    CHECK(row["step_time_s"].is_number());
    CHECK(row["layer"]["forward_received_bytes"] == row["layer_closed_form"]["forward_received_bytes"]);
  }
  const Json& sweep = json["sweep"];
  CHECK(sweep["variable"] == "sequence");
  REQUIRE(sweep["points"].size() == 2);
  CHECK(sweep["points"][1]["strategies"][0]["sequence"] == 1024);
}

TEST_CASE("analyze names the strategies that are not possible; where none is, it ends as with a bad scenario") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", tp4_scenario);
  const Finished some = meshweave_command({"analyze", path, "--devices", "16"});
  CHECK(some.code == 0);
  CHECK(some.out.find("TP is not possible: /layout/language/tp: 16 does not divide the number of attention heads, 8") !=
        std::string::npos);
  const Finished one =
      meshweave_command({"analyze", path, "--set", "/layout/language/tp=1", "--set", "/cluster/node/gpus=1"});
  CHECK(one.code == 3);
  CHECK(one.err.find("--devices N") != std::string::npos);
  CHECK(meshweave_command({"analyze", folder.file("none.json")}).code == 4);
}

TEST_CASE("analyze --plot writes a chart of well-formed XML, and lists the crossovers") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", tp4_scenario);
  const std::string file = folder.file("chart.svg");
  for (const std::string metric : {"time", "memory", "bytes", "forward-bytes"}) {
    const Finished run =
        meshweave_command({"analyze", path, "--plot", file, "--metric", metric, "--sequence", "1024,2048,8192"});
    INFO(run.err);
    REQUIRE(run.code == 0);
    CHECK(run.out.find("\ncrossovers of ") != std::string::npos);
    boost::property_tree::ptree tree;
    CHECK_NOTHROW(boost::property_tree::read_xml(file, tree));
    CHECK(tree.count("svg") == 1);
    // 8 h = 4096 tokens lie between the last two.
    if (metric == "forward-bytes") CHECK(run.out.find("TSP below TP from here on") != std::string::npos);
  }
  const Finished micro = meshweave_command({"analyze", path, "--plot", file, "--micro", "1,2,4"});
  CHECK(micro.code == 0);
  CHECK(folder.names() == std::vector<std::string>{"chart.svg", "small.json"});
}

TEST_CASE("analyze --plot replaces neither the scenario nor what is no file, and an interrupt leaves none") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.svg", tp4_scenario);
  const Finished over_scenario = meshweave_command({"analyze", path, "--plot", path});
  CHECK(over_scenario.code == 2);
  CHECK(over_scenario.err.find("is the scenario") != std::string::npos);
  CHECK(meshweave_command({"analyze", path, "--plot", folder.file("missing/chart.svg")}).code == 4);
  // 10,000 micro-batches take seconds to lower.
  const Finished run =
      interrupted_command({"analyze", path, "--plot", folder.file("chart.svg"), "--set", "/batch/global=10000"}, 300);
  CHECK(run.code == 130);
  CHECK(run.err.rfind("error: interrupted", 0) == 0);
  CHECK(run.out.empty());
  CHECK(folder.names() == std::vector<std::string>{"small.svg"});
}

TEST_CASE("Options of analyze are parsed into plain data, mistakes refused with a hint") {
  const CommandLine line = parse_command_line(
      {"analyze", "a.json", "--devices", "4", "--plot", "x.svg", "--sequence", "2048,1024,2048", "--metric", "memory"});
  CHECK(line.command == Command::analyze);
  CHECK(line.analyze.devices == 4);
  CHECK(line.analyze.sequence == std::vector<std::int64_t>{1024, 2048});
  CHECK(line.analyze.metric == SweepMetric::memory);
  CHECK(refusal({"analyze", "a.json", "--sequence", "8K"}) ==
        "--sequence: \"8K\" is not a whole number above 0 | for example --sequence 8192,16384,32768");
  CHECK(refusal({"analyze", "a.json", "--sequence", "8192", "--micro", "1"}) ==
        "--sequence and --micro: one of them can be swept | --set gives the other a value");
  CHECK(refusal({"analyze", "a.json", "--plot", "x.png"}) ==
        "--plot: x.png does not end in .svg | for example --plot strategies.svg");
  CHECK(refusal({"analyze", "a.json", "--metric", "speed", "--micro", "1"}) ==
        "--metric: unknown metric \"speed\" | time, memory, bytes or forward-bytes");
  CHECK(refusal({"analyze", "a.json", "--metric", "memory"}) ==
        "--metric chooses what is swept | add --plot FILE.svg, --sequence A,B,C or --micro A,B,C");
  CHECK(refusal({"analyze", "a.json", "--devices", "1"}) != "accepted");
  CHECK(parse_command_line({"analyze", "--help"}).help.find("--plot") != std::string::npos);
}
