// `meshweave emulate` from outside.
#include <sys/resource.h>

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
  CHECK(meshweave_command({"emulate", path, "--model-scale", "tiny", "--steps", "3", "--jobs", "1"}).out == page.out);

  const Finished json = meshweave_command({"emulate", path, "--model-scale", "tiny", "--precision", "float", "--json"});
  REQUIRE(json.code == 0);
  const Json result = Json::parse(json.out);
  CHECK(result["executor"] == "numeric");
  CHECK(result["precision"] == "float");
  CHECK(result["loss"].size() == 2);
  CHECK(result["matches"] == true);
  CHECK(result["verdict"] == "matches");
  // Tiny: 8 micro-batches (2 · pp 4) of 1 for each of dp 2; a layer a stage.
  CHECK(result["layout"] == "language: TP2 PP4 DP2, sequence parallel, ZeRO-1, recompute none");
  CHECK(result["batch"] == 16);
  CHECK(result["micro_batches"] == 8);
  CHECK(result["micro_batch"] == 1);
  CHECK(result["sequence"] == 8);
  CHECK(result["hidden"] == 16);
  CHECK(result["layers"] == 4);
  CHECK(result["seed"] == 1);
  CHECK(result["steps"] == 2);
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
  // The scenario as emulated: the model is tiny, hidden 16 instead of 4096, tp is 2 still.
  REQUIRE(trace.provenance.emulation);
  CHECK(*trace.provenance.emulation == TraceEmulation{"tiny", "double", 2});
  const Json resolved = Json::parse(trace.provenance.resolved);
  CHECK(resolved["model"]["language"]["hidden"] == 16);
  CHECK(resolved["layout"]["language"]["tp"] == 2);
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
  const auto steps = [&](const std::string& text) {
    const Finished run = meshweave_command({"emulate", path, "--model-scale", "tiny", "--steps", text});
    CHECK(run.code == 2);
    return run.err.substr(0, run.err.find('\n'));
  };
  for (const char* text : {"1.5", "abc", "1e3", "+", "-"}) {
    CHECK(steps(text) == std::string("error: --steps: \"") + text + "\" is not a whole number (1 to 100000)");
  }
  for (const char* text : {"0", "-1", "100001", "99999999999"}) {
    CHECK(steps(text) == std::string("error: --steps: ") + text + " is not in range (1 to 100000)");
  }
  const Finished alone = meshweave_command({"emulate", path, "--model-scale", "tiny", "--ranks", "0"});
  CHECK(alone.code == 2);
  CHECK(alone.err == "error: --ranks chooses a part of the trace\n  hint: add --trace FILE.json.gz\n");
  const Finished name =
      meshweave_command({"emulate", path, "--model-scale", "tiny", "--trace", folder.file("order.txt")});
  CHECK(name.code == 2);
  CHECK(name.err.find("order.txt ends in neither .json nor .json.gz") != std::string::npos);
  const Finished rank = meshweave_command(
      {"emulate", path, "--model-scale", "tiny", "--trace", folder.file("order.json"), "--ranks", "99"});
  CHECK(rank.code == 2);
  CHECK(rank.err.find("--ranks: there is no rank 99 (0 to 15)") != std::string::npos);
}

TEST_CASE("A trace that cannot be written does not take the result away") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", scenario);
  const std::vector<std::string> arguments{"emulate", path, "--model-scale", "tiny"};
  const Finished without = meshweave_command(arguments);
  REQUIRE(without.code == 0);
  // Files of 8 KiB at most, as if the disk were full: the page fits, the trace does not.
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{8 << 10, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::vector<std::string> with = arguments;
  with.insert(with.end(), {"--trace", folder.file("order.json")});
  const Finished run = meshweave_command(with);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(run.code == 4);
  CHECK(run.out == without.out);
  CHECK(run.err.find("order.json") != std::string::npos);
  CHECK(folder.names() == std::vector<std::string>{"small.json"});
}

TEST_CASE("emulate calls rounding that training amplifies by its name, and returns 0") {
  // As 200 steps of the learning rate 1e-3 do, but within 20: parameters of size 0.02 make steps of 0.3.
  const Finished run =
      meshweave_command({"emulate", MESHWEAVE_SOURCE_DIR "/scenarios/examples/fixed-1f1b.json", "--model-scale", "tiny",
                         "--steps", "20", "--set", "/optimizer/learning_rate=0.3"});
  CAPTURE(run.out);
  CHECK(run.code == 0);
  CHECK(run.out.find("\n  rounding that training amplifies over 20 steps\n  every op of every step was compared") !=
        std::string::npos);
  CHECK(run.out.find("\ndiffers from the reference by ROUNDING alone: ") != std::string::npos);
  CHECK(run.out.find("gradient norm") == std::string::npos);  // clip is 0
}

TEST_CASE("emulate says what it does not judge") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const auto result = [&](const std::string& setting) {
    const Finished run = meshweave_command({"emulate", path, "--model-scale", "tiny", "--json", "--set", setting});
    CHECK(run.code == 0);
    return Json::parse(run.out);
  };
  const Json forward = result("/pass=forward");
  CHECK(forward["not_judged"] == "forward pass only");
  CHECK(forward["gradient_error"].is_null());
  CHECK(forward["parameters"].is_null());
  CHECK(result("/optimizer/clip=0")["gradient_norm_error"].is_null());
  const Json still = result("/optimizer/learning_rate=0");
  CHECK(still["not_judged"] == "updates not judged: learning rate 0");
  CHECK(still["update_error"].is_null());
  CHECK(still["gradient_error"].get<double>() < 1e-10);
}

TEST_CASE("emulate returns 1 where two steps differ already, and blames no op for rounding") {
  // The update of Adam without memory (beta2 = 0) is the sign of a gradient; behind a few steps of size 1 the
  // softmax is saturated, and signs of gradients that are zero in truth are drawn by rounding.
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const Finished run = meshweave_command({"emulate", path, "--model-scale", "tiny", "--steps", "20", "--precision",
                                          "float", "--set", "/optimizer/learning_rate=1"});
  CHECK(run.code == 1);
  CHECK(run.err.empty());
  CHECK(run.out.find("\nDIFFERS from the reference: ") != std::string::npos);
  CHECK(run.out.find("first wrong value") == std::string::npos);
  CHECK(run.out.find("\n  no op could be named\n") != std::string::npos);
  CHECK(run.out.find("\n  2 steps alone differ too: ") != std::string::npos);
  CHECK(run.out.find("\n  it may be rounding of float: --precision double") != std::string::npos);
}
