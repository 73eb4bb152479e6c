// The finished command, from outside: what it prints where, and what it returns.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/trace/trace_reader.h"
#include "tests/cli/process.h"

using namespace meshweave;
using namespace meshweave::testing;
using Json = nlohmann::json;

namespace {

const std::vector<std::string> promised_keys{"step_time_s",
                                             "tokens_per_s",
                                             "tflops_per_gpu",
                                             "mfu",
                                             "hfu",
                                             "bubble_fraction",
                                             "exposed_comm_fraction",
                                             "fits",
                                             "peak_memory_bytes",
                                             "memory_by_category",
                                             "headroom_bytes",
                                             "ranks",
                                             "ops",
                                             "executor",
                                             "published"};

}  // namespace

TEST_CASE("run prints a page, or JSON with the promised keys") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const Finished page = meshweave_command({"run", path});
  CHECK(page.code == 0);
  CHECK(page.err.empty());
  CHECK(page.out.find("step time") != std::string::npos);
  const Finished json = meshweave_command({"run", path, "--json"});
  REQUIRE(json.code == 0);
  CHECK(json.err.empty());
  const Json report = Json::parse(json.out);
  for (const std::string& key : promised_keys) {
    INFO(key);
    CHECK(report.contains(key));
  }
  CHECK(report["timing"]["wall_s"].is_number());
  CHECK(report["executor"] == "analytic");
  CHECK(report["published"].is_null());
}

TEST_CASE("Without timing the output is the same each time, folded or not, on either form") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const std::string json = meshweave_command({"run", path, "--json", "--no-timing"}).out;
  CHECK_FALSE(json.empty());
  CHECK(json.find("timing") == std::string::npos);
  CHECK(meshweave_command({"run", path, "--json", "--no-timing"}).out == json);
  CHECK(meshweave_command({"run", path, "--json", "--no-timing", "--no-fold"}).out == json);
  const std::string page = meshweave_command({"run", path, "--no-timing"}).out;
  CHECK(meshweave_command({"run", path, "--no-timing"}).out == page);
}

TEST_CASE("Without timing the output is the same with any number of jobs") {
  const TemporaryFolder folder;
  folder.write("a.json", small_scenario);
  folder.write("b.json", small_scenario);
  for (const char* executor : {"analytic", "simgrid"}) {
    const auto sweep = [&](const std::string& jobs) {
      return meshweave_command({"run", folder.path(), "--executor", executor, "--vary", "/layout/language/zero=0,1,3",
                                "--set", R"(/perturb=[{"jitter":0.1}])", "--jobs", jobs, "--no-timing", "--json"})
          .out;
    };
    const std::string one = sweep("1");
    REQUIRE(Json::parse(one).size() == 6);
    CHECK(Json::parse(one)[0]["step_time_s"].get<double>() > 0);
    CHECK(sweep("4") == one);
  }
}

TEST_CASE("explain, --trace and --print-program give the same bytes each time") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  CHECK(meshweave_command({"explain", path, "--json"}).out == meshweave_command({"explain", path, "--json"}).out);
  CHECK(meshweave_command({"run", path, "--print-program"}).out ==
        meshweave_command({"run", path, "--print-program"}).out);
  for (const char* executor : {"analytic", "simgrid"}) {
    const auto trace = [&](const std::string& name) {
      const std::string file = folder.file(name);
      CHECK(meshweave_command({"run", path, "--executor", executor, "--trace", file, "--ranks", "all"}).code == 0);
      std::ifstream in(file, std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(in), {});
    };
    const std::string once = trace("a.json.gz");
    CHECK(once.size() > 1000);
    const bool same = trace("b.json.gz") == once;
    CHECK(same);
  }
}

TEST_CASE("simgrid runs the same scenario") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const Finished run = meshweave_command({"run", path, "--executor", "simgrid", "--json", "--no-timing"});
  REQUIRE(run.code == 0);
  const Json report = Json::parse(run.out);
  CHECK(report["executor"] == "simgrid");
  CHECK(report["links"].is_array());
}

TEST_CASE("run --set overrides a value") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const Finished run =
      meshweave_command({"run", path, "--set", "/cluster/nodes=1", "--set", "/layout/language/dp=1", "--json"});
  REQUIRE(run.code == 0);
  CHECK(Json::parse(run.out)["ranks"] == 8);
}

TEST_CASE("The seed decides what jitter draws, and stands in report and trace") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const std::string file = folder.file("t.json");
  const auto run = [&](const std::string& seed) {
    const Finished ended =
        meshweave_command({"run", path, "--set", R"(/perturb=[{"jitter":0.2}])", "--set", "/seed=" + seed, "--json",
                           "--no-timing", "--trace", file, "--ranks", "0"});
    REQUIRE(ended.code == 0);
    return Json::parse(ended.out);
  };
  const Json seven = run("7");
  CHECK(seven["provenance"]["seed"] == 7);
  CHECK(read_trace(file).provenance.seed == 7);
  CHECK(run("7") == seven);
  const Json eight = run("8");
  CHECK(eight["provenance"]["seed"] == 8);
  CHECK(eight["step_time_s"] != seven["step_time_s"]);
}

TEST_CASE("A folder gives one row per scenario, in order of name, with errors for bad ones") {
  const TemporaryFolder folder;
  folder.write("b.json", small_scenario);
  folder.write("a.json", small_scenario);
  Finished run = meshweave_command({"run", folder.path(), "--json", "--no-timing"});
  REQUIRE(run.code == 0);
  Json rows = Json::parse(run.out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["scenario"] == folder.file("a.json"));
  CHECK(rows[1]["scenario"] == folder.file("b.json"));
  CHECK(meshweave_command({"run", folder.path(), "--json", "--no-timing", "--jobs", "1"}).out == run.out);
  run = meshweave_command({"run", folder.path()});
  CHECK(run.out.find("a.json") < run.out.find("b.json"));

  folder.write("c.json", "{}");
  run = meshweave_command({"run", folder.path(), "--json", "--no-timing"});
  CHECK(run.code == 3);
  rows = Json::parse(run.out);
  REQUIRE(rows.size() == 3);
  CHECK(rows[2]["errors"].is_array());
  CHECK(Json::parse(run.err)["errors"].is_array());
}

TEST_CASE("Varied values of one name are told apart by the key before it") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", R"({
    "cluster": { "node": "hgx-h100" },
    "model": { "language": { "hidden": 64, "layers": 2, "heads": 8, "vocabulary": 512, "sequence": 128 } },
    "batch": { "global": 8 },
    "layout": { "language": {} } })");
  const Finished table = meshweave_command(
      {"run", path, "--vary", "/layout/language/cp/degree=1,8", "--vary", "/layout/language/tsp/degree=1,8"});
  CHECK(table.out.find("cp/degree  tsp/degree  ranks") != std::string::npos);
}

TEST_CASE("run --vary crosses its values, sorts by step time, and counts what is not possible") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const std::vector<std::string> vary{"run", path, "--vary", "/layout/language/dp=2,3", "--vary", "/batch/micro=1,2"};
  std::vector<std::string> arguments = vary;
  arguments.insert(arguments.end(), {"--json", "--no-timing"});
  const Finished run = meshweave_command(arguments);
  REQUIRE(run.code == 0);
  const Json rows = Json::parse(run.out);
  REQUIRE(rows.size() == 4);
  CHECK(rows[0]["step_time_s"].get<double>() <= rows[1]["step_time_s"].get<double>());
  CHECK(rows[0]["vary"]["/layout/language/dp"] == 2);
  CHECK(rows[2]["errors"].size() >= 1);  // dp 3 does not fill 16 ranks
  const Finished none = meshweave_command({"run", path, "--vary", "/seed=x"});
  CHECK(none.code == 3);
  CHECK(none.err == "--vary /seed=x: error: /seed: expected an integer (is a string)\n");
  const Finished table = meshweave_command(vary);
  CHECK(table.code == 0);
  CHECK(table.out.find("2 of 4 points are not possible:") != std::string::npos);
}

TEST_CASE("A published result is compared while overrides leave the run the one that was published") {
  const TemporaryFolder folder;
  Json scenario = Json::parse(small_scenario);
  scenario["published"] = {{"mfu", 0.4}, {"source", "a paper"}};
  const std::string path = folder.write("small.json", scenario.dump());
  const auto published = [&](const std::vector<std::string>& overrides) {
    std::vector<std::string> arguments{"run", path, "--json"};
    for (const std::string& override_text : overrides) arguments.insert(arguments.end(), {"--set", override_text});
    return Json::parse(meshweave_command(arguments).out)["published"];
  };
  // What a table leaves open, and what the file says already.
  for (const char* same : {"/batch/micro=2", "/layout/language/recompute=full", "/host/graphs=true", "/batch/global=32",
                           "/layout/language={\"tp\":2,\"pp\":4,\"dp\":2,\"zero\":1,\"vpp\":2}", "/name=other"}) {
    INFO(same);
    CHECK(published({same})["relative_error"].contains("mfu"));
  }
  const std::pair<std::string, std::string> others[] = {{"/batch/global=64", "/batch/global"},
                                                        {"/cluster/node=dgx-a100", "/cluster/node"},
                                                        {"/model/language/layers=16", "/model/language/layers"},
                                                        {"/layout/language={\"tp\":1}", "/layout/language/tp"},
                                                        {"/pass=forward", "/pass"}};
  for (const auto& [other, pointer] : others) {
    INFO(other);
    const Json shown = published({other});
    CHECK(shown["differs_at"] == pointer);
    CHECK_FALSE(shown.contains("relative_error"));
  }
  const Finished page = meshweave_command({"run", path, "--set", "/batch/global=64"});
  CHECK(page.out.find("published: a paper\n  not compared: /batch/global makes this another run") != std::string::npos);
  CHECK(page.out.find("published 40.0 %") == std::string::npos);
  // In a sweep the point that is the published run keeps it.
  const Finished sweep = meshweave_command({"run", path, "--vary", "/batch/global=32,64", "--json"});
  const Json rows = Json::parse(sweep.out);
  CHECK(rows[0]["published"].contains("relative_error") != rows[1]["published"].contains("relative_error"));
}

TEST_CASE("A folder without scenarios names those below it, a folder is no file") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() + "/inner");
  const Finished empty = meshweave_command({"run", folder.path()});
  CHECK(empty.code == 4);
  CHECK(empty.err == "error: " + folder.path() + ": holds no *.json\n");
  folder.write("inner/small.json", small_scenario);
  const Finished outer = meshweave_command({"run", folder.path()});
  CHECK(outer.code == 4);
  CHECK(outer.err ==
        "error: " + folder.path() + ": holds no *.json, but " + folder.path() + "/inner do: name one of them\n");
  const Finished file = meshweave_command({"emulate", folder.path()});
  CHECK(file.code == 4);
  CHECK(file.err == "error: cannot read " + folder.path() + ": it is a folder, and a file is expected here\n");
}

TEST_CASE("Where no point of a sweep is possible there is no empty table, and with --json each error stands once") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const Finished table = meshweave_command({"run", path, "--vary", "/layout/language/dp=3,5"});
  CHECK(table.code == 3);
  CHECK(table.out.rfind("2 of 2 points are not possible:\n", 0) == 0);
  const Finished json = meshweave_command({"run", path, "--vary", "/layout/language/dp=3,5", "--json"});
  CHECK(json.code == 3);
  CHECK(json.err.empty());
  CHECK(Json::parse(json.out)[1]["errors"].size() == 1);
}

TEST_CASE("Points that do not fit stand behind those that do") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  // The framework alone takes 3 GB, so a device of 3 GB has no room for the model.
  const Finished run = meshweave_command(
      {"run", path, "--vary",
       R"(/cluster/node={"base":"hgx-h100"},{"base":"hgx-h100","device":{"base":"h100-sxm","memory":"3 GB"}})",
       "--json", "--no-timing"});
  INFO(run.err);
  REQUIRE(run.code == 0);
  const Json rows = Json::parse(run.out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["fits"] == true);
  CHECK(rows[1]["fits"] == false);
}

TEST_CASE("Mistakes of each kind have their exit code, and keep stdout clean") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const auto expect = [](const std::vector<std::string>& arguments, int code, const std::string& text) {
    const Finished run = meshweave_command(arguments);
    INFO(run.err);
    CHECK(run.code == code);
    CHECK(run.out.empty());
    CHECK(run.err.find(text) != std::string::npos);
  };
  expect({"rnu", path}, 2, "did you mean \"run\"?");
  expect({"run"}, 2, "meshweave run --help");
  expect({"run", path, "--frobnicate"}, 2, "unexpected argument \"--frobnicate\"");
  expect({"run", path, "--trace", folder.file("t.json"), "--ranks", "99"}, 2, "there is no rank 99 (0 to 15)");
  expect({"run", path, "--trace", folder.file("t.json"), "--window", "100 s,200 s"}, 2,
         "--window: begins at 100 s, but the step lasts from ");
  expect({"run", path, "--trace", ""}, 2, "the argument after --trace is empty");
  expect({"run", folder.write("bad.json", "{ \"nmae\": 1 }")}, 3, "bad.json:1:");
  expect({"run", folder.write("syntax.json", "{ ")}, 3, "syntax.json:1:");
  expect({"run", path, "--set", "/layout/language/tp=3"}, 3, "tp");
  expect({"run", path, "--set", "/layout/language={\"dp\":8"}, 3, "{\"dp\":8 is no JSON: ");
  expect({"run", path, "--set", "/model/language/hidden=1e400"}, 3, "1e400 is no JSON: number overflow");
  expect({"run", path, "--set", "/layout/language/pp=16"}, 3, "every stage needs a layer: pp · vpp is at most 8");
  expect({"run", folder.file("absent.json")}, 4, "absent.json");
  expect({"run", path, "--trace", folder.file("no/t.json")}, 4, "no/t.json");
  expect({"list", "modles"}, 2, "did you mean \"models\"?");
}

TEST_CASE("With --json errors are JSON on stderr") {
  const TemporaryFolder folder;
  const std::string bad = folder.write("bad.json", "{\n  \"nmae\": 1\n}");
  const Finished run = meshweave_command({"run", bad, "--json"});
  CHECK(run.code == 3);
  const Json errors = Json::parse(run.err)["errors"];
  REQUIRE(errors.size() >= 1);
  CHECK(errors[0]["file"] == bad);
  const auto named = std::find_if(errors.begin(), errors.end(), [](const Json& e) { return e["line"] == 2; });
  REQUIRE(named != errors.end());
  CHECK(named->contains("pointer"));
  CHECK(named->contains("message"));
  CHECK(named->contains("hint"));
  CHECK(Json::parse(meshweave_command({"run", "--json", "--frobnicate"}).err)["errors"].size() == 1);
}

TEST_CASE("Names act on no terminal, and JSON keeps them") {
  // ESC, line feed, tab, bell, DEL and the C1 character that begins a control sequence.
  const std::string name = "a\x1b[31m\nb\tc\x07\x7f\xc2\x9b";
  const std::string shown = "a\\x1b[31m\\nb\\tc\\x07\\x7f\\xc2\\x9b";
  const auto is_plain = [](const std::string& text) {
    return std::none_of(text.begin(), text.end(),
                        [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f; }) &&
           text.find("\xc2\x9b") == std::string::npos;
  };
  const TemporaryFolder folder;
  Json scenario = Json::parse(small_scenario);
  scenario["name"] = name;
  scenario["published"] = {{"mfu", 0.4}, {"source", name}};
  scenario["cluster"]["node"] = {
      {"base", "hgx-h100"}, {"source", name}, {"device", {{"base", "h100-sxm"}, {"name", name}, {"source", name}}}};
  scenario["host"] = {{"graphs", false}};
  const std::string path = folder.write(name + ".json", scenario.dump());
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  const std::string plain_path = folder.write("plain.json", R"({"cluster":{"node":"hgx-h100"}})");

  const Finished page = meshweave_command({"run", path});
  REQUIRE(page.code == 0);
  CHECK(page.out.find(shown + "\n") == 0);
  CHECK(page.out.find("published: " + shown + "\n") != std::string::npos);
  const Finished table =
      meshweave_command({"run", path, "--vary", "/name=\"x\\u001b\",\"y\\n\"", "--progress", "always"});
  CHECK(table.code == 0);
  CHECK(lines(table.out) == 3);
  const Finished rows = meshweave_command({"run", folder.path()});
  CHECK(rows.code == 3);
  CHECK(rows.out.find(shown + ".json") != std::string::npos);
  const Finished explained = meshweave_command({"explain", path});
  CHECK(explained.code == 0);
  CHECK(explained.out.find("] " + shown + "\n") != std::string::npos);
  const Finished resolved = meshweave_command({"check", path});
  CHECK(Json::parse(resolved.out)["name"] == name);
  const Finished checked = meshweave_command({"check", folder.path()});
  CHECK(checked.out.find("/" + shown + ".json: ok\n") != std::string::npos);
  const Finished absent = meshweave_command({"run", folder.file(name)});
  CHECK(absent.err.find(folder.file(shown)) != std::string::npos);
  const Finished bad = meshweave_command({"run", path, "--set", "/" + name + "=1"});
  CHECK(bad.err.find("/" + shown + ": unknown key\n") != std::string::npos);
  const Finished argument = meshweave_command({"run", path, "--" + name});
  for (const std::string& text : {page.out, table.out, rows.out, rows.err, explained.out, resolved.out, checked.out,
                                  checked.err, absent.err, bad.err, argument.err}) {
    INFO(text);
    CHECK(is_plain(text));
  }
  CHECK(Json::parse(meshweave_command({"run", path, "--json"}).out)["name"] == name);
  CHECK(Json::parse(meshweave_command({"run", folder.path(), "--json"}).out)[0]["name"] == name);
  CHECK(Json::parse(meshweave_command({"explain", path, "--json"}).out)["name"] == name);
  CHECK(Json::parse(meshweave_command({"run", folder.file(name), "--json"}).err)["errors"].size() == 1);
  const std::string trace = folder.file("t.json");
  REQUIRE(meshweave_command({"run", path, "--trace", trace}).code == 0);
  CHECK(read_trace(trace).provenance.name == name);
}

TEST_CASE("A command whose output nobody reads ends quietly") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"run", path},
                                             {"run", path, "--json"},
                                             {"run", folder.path()},
                                             {"run", path, "--print-program"},
                                             {"explain", path},
                                             {"explain", path, "--json"},
                                             {"check", path},
                                             {"list"},
                                             {"list", "--json"},
                                             {"schema"},
                                             {"--help"}}) {
    const Finished ended = unread_command(arguments);
    CHECK(ended.code == 141);
    CHECK(ended.err.empty());
  }
}

TEST_CASE("check prints the resolved scenario, which is a scenario again") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const Finished resolved = meshweave_command({"check", path});
  REQUIRE(resolved.code == 0);
  const std::string again = folder.write("again.json", resolved.out);
  const auto result = [](const std::string& scenario) {
    const Json report = Json::parse(meshweave_command({"run", scenario, "--json", "--no-timing"}).out);
    return report["step_time_s"].get<double>();
  };
  CHECK(result(again) == result(path));
  folder.write("bad.json", "{}");
  const Finished all = meshweave_command({"check", folder.path()});
  CHECK(all.code == 3);
  CHECK(all.out.find("small.json: ok\n") != std::string::npos);
  CHECK(all.out.find("bad.json: not possible\n") != std::string::npos);
}

TEST_CASE("explain says where the numbers come from") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const Finished text = meshweave_command({"explain", path});
  CHECK(text.code == 0);
  CHECK(text.out.find("\nsources\n  [1] NVIDIA H100") != std::string::npos);
  CHECK(text.out.find("NVIDIA H100 SXM5") == text.out.rfind("NVIDIA H100 SXM5"));  // each source once
  const Finished json =
      meshweave_command({"explain", path, "--json", "--set", R"(/perturb=[{"rank":1,"compute_time":1.5}])"});
  REQUIRE(json.code == 0);
  const Json explained = Json::parse(json.out);
  CHECK(explained["perturbation"]["delay_s"].get<double>() > 0);
  CHECK(explained["perturbation"]["causes"][0]["what"] == "rank 1: compute × 1.5");
}

TEST_CASE("explain names the slowed rank and its delay") {
  // Two stages, four micro-batches, every pass 1 s: (4 + 1) × 3 = 15 s. Stage 1 at 1.5 s per pass works without a gap
  // once the first forward (1 s) has reached it, and the last backward (2 s) follows: 1 + 4 × 4.5 + 2 = 21 s.
  const TemporaryFolder folder;
  const std::string path = folder.write("fixed.json", R"({
    "name": "fixed",
    "cluster": { "node": { "base": "hgx-h100", "gpus": 2 }, "nodes": 1 },
    "model": { "language": { "hidden": 64, "layers": 2, "heads": 8, "vocabulary": 1000, "sequence": 32 } },
    "batch": { "global": 4, "micro": 1 },
    "layout": { "language": { "pp": 2, "dp": 1, "zero": 0 } },
    "cost": { "kind": "fixed", "forward": "1 s", "backward_data": "1 s", "backward_weight": "1 s" },
    "perturb": [{ "rank": 1, "compute_time": 1.5 }]
  })");
  const Finished json = meshweave_command({"explain", path, "--json"});
  INFO(json.err);
  REQUIRE(json.code == 0);
  const Json explained = Json::parse(json.out);
  CHECK(explained["numbers"]["step_time_s"]["value"].get<double>() == Approx(21).epsilon(1e-12));
  CHECK(explained["perturbation"]["unperturbed_step_time_s"].get<double>() == Approx(15).epsilon(1e-12));
  CHECK(explained["perturbation"]["delay_s"].get<double>() == Approx(6).epsilon(1e-12));
  CHECK(explained["perturbation"]["causes"][0]["what"] == "rank 1: compute × 1.5");
  CHECK(meshweave_command({"explain", path})
            .out.find("the step takes 6 s longer than without perturbations; all of it "
                      "by rank 1: compute × 1.5") != std::string::npos);
}

TEST_CASE("list and schema") {
  const Json names = Json::parse(meshweave_command({"list", "--json"}).out);
  CHECK(names["models"].size() > 5);
  CHECK(names["devices"].size() > 1);
  const auto entry = [&](const char* section, const char* name) {
    const Json& all = names[section];
    const auto at = std::find_if(all.begin(), all.end(), [&](const Json& e) { return e["name"] == name; });
    REQUIRE(at != all.end());
    return *at;
  };
  const Json model = entry("models", "llama2-7b");
  CHECK(model["parameters"] == 6738415616);  // as published
  CHECK(model["layers"] == 32);
  CHECK(model["hidden"] == 4096);
  CHECK(model["sequence"] == 4096);
  const Json device = entry("devices", "h100-sxm");
  CHECK(device["peak_flops_per_s"] == 989'400'000'000'000);
  CHECK(device["memory_bytes"] == 84'932'978'278);  // 79.1 GiB
  CHECK(device["memory_bandwidth_bytes_per_s"] == 3'350'000'000'000);
  CHECK(device["compute_units"] == 132);
  const Json node = entry("nodes", "hgx-h100");
  CHECK(node["device"] == "h100-sxm");
  CHECK(node["gpus"] == 8);
  CHECK(node["fabric"] == "nvswitch");
  CHECK(node["link_bandwidth_bytes_per_s"] == 450'000'000'000);
  CHECK(node["nic_bandwidth_bytes_per_s"] == 50'000'000'000);
  const Json fabric = entry("fabrics", "rail-200g");
  CHECK(fabric["port_bandwidth_bytes_per_s"] == 25'000'000'000);
  CHECK(fabric["oversubscription"] == 1);
  CHECK(fabric["nodes_per_leaf"] == 20);
  CHECK(fabric["cross_rail"] == true);
  CHECK(meshweave_command({"list", "nodes"}).out.substr(0, 6) == "nodes\n");
  CHECK(Json::parse(meshweave_command({"schema"}).out).contains("$schema"));
}

TEST_CASE("run --print-program prints the bodies") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const Finished all = meshweave_command({"run", path, "--print-program"});
  const Finished one = meshweave_command({"run", path, "--print-program", "0"});
  CHECK(all.code == 0);
  CHECK(one.code == 0);
  CHECK(one.out.size() < all.out.size());
  CHECK(meshweave_command({"run", path, "--print-program", "99"}).code == 2);
}

TEST_CASE("run --stats prints phases and memory to stderr, not to stdout") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const Finished run = meshweave_command({"run", path, "--json", "--stats"});
  CHECK(run.code == 0);
  CHECK(Json::parse(run.out).is_object());
  for (const char* word : {"lower", "replay", "replayed ops/s", "peak RSS"}) {
    CHECK(run.err.find(word) != std::string::npos);
  }
}

TEST_CASE("An interrupted run returns 130 and leaves no file") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  // Many points take seconds; the interrupt comes while they run.
  std::string values = "1";
  for (int seed = 2; seed < 4000; ++seed) values += "," + std::to_string(seed);
  const Finished sweep = interrupted_command({"run", path, "--vary", "/seed=" + values}, 300);
  CHECK(sweep.code == 130);
  // The points that were finished are shown, one a line beneath the title, and counted.
  const auto shown = std::count(sweep.out.begin(), sweep.out.end(), '\n') - 1;
  CHECK(sweep.err.rfind("error: interrupted", 0) == 0);
  if (shown > 0) CHECK(sweep.err.find(": " + std::to_string(shown) + " of 3999 runs") != std::string::npos);
  CHECK(folder.names() == std::vector<std::string>{"small.json"});
}

TEST_CASE("A terminal that closes and a scheduler that cancels leave no file either, and are told apart") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  // 2,000 micro-batches on 16 ranks: seconds to lower, to play and to write.
  for (const auto& [signal, code] : {std::pair{SIGHUP, 129}, std::pair{SIGTERM, 143}}) {
    const Finished run = interrupted_command(
        {"run", path, "--set", "/batch/global=4000", "--no-fold", "--ranks", "all", "--trace", folder.file("t.json")},
        1000, signal);
    CHECK(run.code == code);
    CHECK(run.err.rfind("error: interrupted", 0) == 0);
    CHECK(folder.names() == std::vector<std::string>{"small.json"});
  }
}

TEST_CASE("An interrupt is answered at once, in the long lowering of a folder's runs too") {
  const TemporaryFolder folder;
  folder.write("a.json", small_scenario);
  folder.write("b.json", small_scenario);
  // 20,000 micro-batches through 8 layers: many seconds, of which the lowering takes the first ones.
  const Finished run = interrupted_command(
      {"run", folder.path(), "--set", "/batch/global=320000", "--set", "/layout/language={\"dp\":16,\"zero\":0}"}, 400);
  CHECK(run.code == 130);
  CHECK(run.err.rfind("error: interrupted", 0) == 0);
  CHECK(run.reaction_s < 3);  // a second where the machine has nothing else to do
}

TEST_CASE("Tables count in digits, and one in the singular") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const std::vector<std::string> one_node{"--set", "/cluster/nodes=1", "--set", "/layout/language={\"tp\":8}",
                                          "--set", "/batch/global=1"};
  for (const char* command : {"run", "explain"}) {
    std::vector<std::string> arguments{command, path, "--stats"};
    arguments.insert(arguments.end(), one_node.begin(), one_node.end());
    const Finished ended = meshweave_command(arguments);
    REQUIRE(ended.code == 0);
    const std::string text = ended.out + ended.err;
    for (const char* plural :
         {" 1 nodes", " 1 ranks", " 1 ops", " 1 micro-batches", " 1 replicas", " 1 samples", "1 executions"}) {
      INFO(plural);
      CHECK(text.find(plural) == std::string::npos);
    }
  }
  const Finished run =
      meshweave_command({"run", path, "--stats", "--set", "/published={\"tokens_per_s\":1234567,\"source\":\"s\"}"});
  CHECK(run.out.find("published 1234567 (") != std::string::npos);
  CHECK((run.out + run.err).find("e+") == std::string::npos);
  // Every line of the kinds of op is as long as the others: the longest name leaves the columns where they are.
  const std::size_t begin = run.out.find("compute by kind of op\n");
  std::istringstream kinds(run.out.substr(begin, run.out.find("\n\n", begin) - begin));
  std::string kind;
  std::getline(kinds, kind);
  CHECK(kinds.str().find("\n  cross-entropy-backward  ") != std::string::npos);
  while (std::getline(kinds, kind))
    CHECK(kind.size() == std::string("  matmul                      74.64 ms     4.1 %").size());
  const Finished table = meshweave_command({"run", path, "--vary", "/layout/language/dp=2,3"});
  CHECK(table.out.find("\n1 of 2 points is not possible:\n") != std::string::npos);
}
