#include "sim/cli/command_line.h"

#include <catch2/catch.hpp>

using namespace meshweave;

namespace {

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse_command_line(arguments);
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("A run's options are parsed into plain data") {
  const CommandLine line = parse_command_line(
      {"run", "a.json", "--set", "/batch/micro=2", "--vary", "/layout/language/tp=1,2,4", "--executor", "simgrid",
       "--no-fold", "--jobs", "3", "--json", "--no-timing"});
  CHECK(line.command == Command::run);
  CHECK(line.targets == std::vector<std::string>{"a.json"});
  REQUIRE(line.overrides.size() == 1);
  CHECK(line.overrides[0].pointer == "/batch/micro");
  CHECK(line.overrides[0].value == "2");
  REQUIRE(line.vary.size() == 1);
  CHECK(line.vary[0].values == std::vector<std::string>{"1", "2", "4"});
  CHECK(line.executor == Executor::simgrid);
  CHECK_FALSE(line.fold);
  CHECK(line.jobs == 3);
  CHECK(line.json);
  CHECK_FALSE(line.timing);
}

TEST_CASE("Values of --vary are split at the commas outside brackets and quotes") {
  CHECK(split_values("1,2") == std::vector<std::string>{"1", "2"});
  CHECK(split_values("[1,2],[3]") == std::vector<std::string>{"[1,2]", "[3]"});
  CHECK(split_values(R"("a,b",{"x":[1,2]})") == std::vector<std::string>{R"("a,b")", R"({"x":[1,2]})"});
  CHECK(split_values(R"("a\",b",c)") == std::vector<std::string>{R"("a\",b")", "c"});
}

TEST_CASE("Ranks and window of a trace") {
  CommandLine line = parse_command_line({"run", "a.json", "--trace", "t.json", "--ranks", "0,8,16-18", "--window", "1 ms,2 ms"});
  CHECK(line.trace.ranks == std::vector<int>{0, 8, 16, 17, 18});
  REQUIRE(line.trace.window);
  CHECK(line.trace.window->first == Picoseconds{1'000'000'000});
  CHECK(line.trace.window->second == Picoseconds{2'000'000'000});
  line = parse_command_line({"run", "a.json", "--trace", "t.json", "--ranks", "all"});
  CHECK(line.trace.all_ranks);
}

TEST_CASE("run --print-program takes a body or none") {
  CommandLine line = parse_command_line({"run", "a.json", "--print-program"});
  CHECK(line.print_program);
  CHECK(line.print_body == -1);
  line = parse_command_line({"run", "a.json", "--print-program", "3"});
  CHECK(line.print_body == 3);
  CHECK(line.targets == std::vector<std::string>{"a.json"});
}

TEST_CASE("Mistakes on the command line are refused with a hint") {
  CHECK(refusal({"rnu", "a.json"}) == "unknown command \"rnu\" | did you mean \"run\"?");
  CHECK(refusal({"simulate"}) == "unknown command \"simulate\" | one of run, check, explain, list, schema");
  CHECK(refusal({"run", "a.json", "--execuotr", "simgrid"}) == "unexpected argument \"--execuotr\" | did you mean --executor?");
  CHECK(refusal({"run", "a.json", "--executor", "fast"}) == "--executor: unknown executor \"fast\" | analytic or simgrid");
  CHECK(refusal({"run", "a.json", "--set", "batch=1"}) ==
        "--set batch=1: must be /json/pointer=value | for example --set /batch/micro=2");
  CHECK(refusal({"run", "a.json", "--ranks", "all"}) ==
        "--ranks and --window choose a part of the trace | add --trace FILE.json.gz");
  CHECK(refusal({"run", "a.json", "--trace", "t", "--ranks", "5-2"}) == "--ranks: \"5-2\" is not a range | ");
  CHECK(refusal({"run", "a.json", "--trace", "t", "--ranks", "x"}) ==
        "--ranks: \"x\" is not a whole number of at least 0 | ");
  CHECK(refusal({"run", "a.json", "--trace", "t", "--window", "2 ms,1 ms"}) == "--window: ends before it begins | ");
  CHECK(refusal({"run", "a.json", "--trace", "t", "--window", "1 ms"}) ==
        "--window: must be two times, for example \"10 ms,25 ms\" | ");
  CHECK(refusal({"run"}).find("meshweave run --help") != std::string::npos);
  CHECK(refusal({}).find("meshweave --help") != std::string::npos);
  CHECK(refusal({"run", "a.json", "--jobs", "0"}) != "accepted");
}

TEST_CASE("Help is a result, for the command and for each subcommand") {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--help"}, {"run", "--help"}, {"check", "--help"}, {"explain", "--help"}, {"list", "--help"}, {"schema", "--help"}}) {
    const CommandLine line = parse_command_line(arguments);
    CHECK(line.command == Command::help);
    CHECK(line.help.find("meshweave") != std::string::npos);
  }
  CHECK(parse_command_line({"run", "--help"}).help.find("--vary") != std::string::npos);
  CHECK(parse_command_line({"--version"}).help == std::string(version_text()) + "\n");
}
