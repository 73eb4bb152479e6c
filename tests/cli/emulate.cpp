// `meshweave emulate` from outside.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/trace/critical_path.h"
#include "sim/trace/trace_reader.h"
#include "tests/cli/process.h"

using namespace meshweave;
using namespace meshweave::testing;
using Json = nlohmann::json;

namespace {

const std::string scenario = R"({
  "name": "small",
  "cluster": { "node": "hgx-h100", "nodes": 2 },
  "model": { "language": { "zoo": "llama3-8b" } },
  "batch": { "global": 32, "micro": 1 },
  "layout": { "language": { "tp": 2, "pp": 4, "dp": 2, "zero": 1, "sequence_parallel": true } }
})";

}  // namespace

TEST_CASE("emulate says that the layout trains the same model, and by how much it differs") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", scenario);
  const Finished page = meshweave_command({"emulate", path, "--model-scale", "tiny", "--steps", "3"});
  CHECK(page.code == 0);
  CHECK(page.err.empty());
  CHECK(page.out.find("16 ranks emulated in double, the model made tiny") != std::string::npos);
  CHECK(page.out.find("\nmatches the reference: ") != std::string::npos);
  CHECK(meshweave_command({"emulate", path, "--model-scale", "tiny", "--steps", "3", "--jobs", "1"}).out ==
        page.out);

  const Finished json =
      meshweave_command({"emulate", path, "--model-scale", "tiny", "--precision", "float", "--json"});
  REQUIRE(json.code == 0);
  const Json result = Json::parse(json.out);
  CHECK(result["executor"] == "numeric");
  CHECK(result["precision"] == "float");
  CHECK(result["loss"].size() == 2);
  CHECK(result["matches"] == true);
  CHECK(result["first_wrong"].is_null());
  CHECK(result["gradient_error"].get<double>() > 1e-9);  // it is float indeed
  CHECK(result["gradient_error"].get<double>() < 1e-4);
}

TEST_CASE("emulate writes the order of the step as a trace in logical time") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", scenario);
  const std::string file = folder.path() + "/order.json.gz";
  REQUIRE(meshweave_command({"emulate", path, "--model-scale", "tiny", "--trace", file}).code == 0);
  const Trace trace = read_trace(file);
  CHECK(trace.provenance.executor == "numeric");
  CHECK(trace.ranks.size() == 16);
  for (const TraceSlice& s : trace.slices) {
    REQUIRE(s.end > s.start);
    REQUIRE(s.transfer >= s.start);
  }
  CHECK_FALSE(critical_path(trace).empty());
}

TEST_CASE("emulate refuses what it cannot do, and says what it can") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", scenario);
  const Finished full = meshweave_command({"emulate", path});
  CHECK(full.code == 2);
  CHECK(full.err.find("emulate: all 16 ranks of the model would take about ") != std::string::npos);
  CHECK(full.err.find("--model-scale tiny makes the model small and keeps the layout") != std::string::npos);
  const Finished precision = meshweave_command({"emulate", path, "--precision", "half"});
  CHECK(precision.code == 2);
  CHECK(precision.err.find("--precision: unknown precision \"half\"") != std::string::npos);
  const Finished scale = meshweave_command({"emulate", path, "--model-scale", "small"});
  CHECK(scale.code == 2);
  CHECK(scale.err.find("full or tiny") != std::string::npos);
  CHECK(meshweave_command({"emulate", path, "--steps", "0"}).code == 2);
  const Finished name = meshweave_command({"emulate", path, "--model-scale", "tiny", "--trace", folder.file("order.txt")});
  CHECK(name.code == 2);
  CHECK(name.err.find("order.txt ends in neither .json nor .json.gz") != std::string::npos);
  const Finished rank = meshweave_command(
      {"emulate", path, "--model-scale", "tiny", "--trace", folder.file("order.json"), "--ranks", "99"});
  CHECK(rank.code == 2);
  CHECK(rank.err.find("--ranks: there is no rank 99 (0 to 15)") != std::string::npos);
}

TEST_CASE("emulate returns 1 where the training differs, and blames no op for rounding") {
  // The update of Adam without memory (beta2 = 0) is the sign of a gradient; behind a few steps of size 1 the
  // softmax is saturated, and signs of gradients that are zero in truth are drawn by rounding.
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const Finished run = meshweave_command({"emulate", path, "--model-scale", "tiny", "--steps", "20", "--precision", "float",
                                          "--set", "/optimizer/learning_rate=1"});
  CHECK(run.code == 1);
  CHECK(run.err.empty());
  CHECK(run.out.find("\nDIFFERS from the reference: ") != std::string::npos);
  CHECK(run.out.find("first wrong value") == std::string::npos);
  CHECK(run.out.find("rounding of float") != std::string::npos);
}
