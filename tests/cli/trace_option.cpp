// `--trace` from outside: what it writes, and where it may.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "sim/trace/trace_reader.h"
#include "tests/cli/process.h"

using namespace meshweave;
using namespace meshweave::testing;

TEST_CASE("run --trace writes a file that reads back, the choice of ranks is kept") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const std::string file = folder.file("t.json.gz");
  REQUIRE(meshweave_command({"run", path, "--trace", file, "--ranks", "0,3"}).code == 0);
  const Trace trace = read_trace(file);
  REQUIRE(trace.ranks.size() == 2);
  CHECK(trace.ranks[1].rank == 3);
  CHECK_FALSE(trace.slices.empty());
  CHECK(folder.names() == std::vector<std::string>{"small.json", "t.json.gz"});
}

TEST_CASE("run --trace replaces neither the scenario nor what is no file, and says so before the run") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const Finished itself = meshweave_command({"run", path, "--trace", folder.path() + "/./small.json"});
  CHECK(itself.code == 2);
  CHECK(itself.err.find("small.json is the scenario") != std::string::npos);
  const Finished at_folder = meshweave_command({"run", path, "--trace", folder.path()});
  CHECK(at_folder.code == 4);
  CHECK(at_folder.err.find("is a folder; a regular file can be written") != std::string::npos);
  CHECK(at_folder.out.empty());
  CHECK(folder.names() == std::vector<std::string>{"small.json"});
  std::ifstream kept(path);
  CHECK(std::string(std::istreambuf_iterator<char>(kept), {}) == small_scenario);
}

TEST_CASE("run --trace wants a name that says what the file is") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  const auto refused = [&](const std::string& name, const std::string& better) {
    const Finished run = meshweave_command({"run", path, "--trace", folder.file(name)});
    CHECK(run.code == 2);
    CHECK(run.out.empty());
    CHECK(run.err == "error: --trace: " + folder.file(name) +
                         " ends in neither .json nor .json.gz\n  hint: for example --trace " + folder.file(better) +
                         "\n");
  };
  refused("x.txt", "x.json.gz");
  refused("x", "x.json.gz");
  refused("x.gz", "x.json.gz");
  refused("x.JSON", "x.json.gz");
  CHECK(folder.names() == std::vector<std::string>{"small.json"});
}

TEST_CASE("A trace does not take the place of a file that the scenario names") {
  const TemporaryFolder folder;
  const std::string baseline = folder.write("baseline.json", small_scenario);
  std::string text = small_scenario;
  text.insert(1, "\"baseline\": \"baseline.json\",");
  const std::string path = folder.write("small.json", text);
  for (const char* command : {"run", "emulate"}) {
    const Finished run = meshweave_command({command, path, "--trace", baseline});
    CHECK(run.code == 2);
    CHECK(run.err.find("is read by the scenario") != std::string::npos);
  }
  CHECK(meshweave_command({"check", baseline}).code == 0);
}

TEST_CASE("A trace in a folder that is missing is refused before the work") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_scenario);
  for (const char* command : {"run", "emulate"}) {
    for (const char* name : {"no/t.json", "no/"}) {
      const Finished run = meshweave_command({command, path, "--trace", folder.file(name)});
      CHECK(run.code == 4);
      CHECK(run.out.empty());
      CHECK(run.err == "error: " + folder.file(name) + ": cannot be created: No such file or directory\n");
    }
  }
  const Finished run = meshweave_command({"run", path, "--trace", path + "/t.json"});
  CHECK(run.code == 4);
  CHECK(run.err == "error: " + path + "/t.json: cannot be created: Not a directory\n");
}
