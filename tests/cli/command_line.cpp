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
  const CommandLine line =
      parse_command_line({"run", "a.json", "--set", "/batch/micro=2", "--vary", "/layout/language/tp=1,2,4",
                          "--executor", "simgrid", "--no-fold", "--jobs", "3", "--json", "--no-timing"});
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
  CommandLine line =
      parse_command_line({"run", "a.json", "--trace", "t.json", "--ranks", "0,8,16-18", "--window", "1 ms,2 ms"});
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
  CHECK(refusal({"frobnicate"}) ==
        "unknown command \"frobnicate\" | one of run, check, explain, analyze, compare, emulate, list, schema");
  CHECK(refusal({"run", "a.json", "--execuotr", "simgrid"}) ==
        "unexpected argument \"--execuotr\" | did you mean --executor?");
  CHECK(refusal({"run", "a.json", "--executor", "fast"}) ==
        "--executor: unknown executor \"fast\" | analytic or simgrid");
  CHECK(refusal({"run", "a.json", "--set", "batch=1"}) ==
        "--set batch=1: must be /json/pointer=value | for example --set /batch/micro=2");
  CHECK(refusal({"run", "a.json", "--ranks", "all"}) ==
        "--ranks and --window choose a part of the trace | add --trace FILE.json.gz");
  for (const char* range : {"5-2", "3-", "3-x", "0-9999999"}) {
    CHECK(refusal({"run", "a.json", "--trace", "t", "--ranks", range}) ==
          std::string("--ranks: \"") + range +
              "\" is not a range of ranks | all, or a list such as 0,8,16-23; ranks count from 0");
  }
  for (const char* rank : {"x", "-1", "1.5", "0x1"}) {
    CHECK(refusal({"run", "a.json", "--trace", "t", "--ranks", rank}) ==
          std::string("--ranks: \"") + rank +
              "\" is not a rank | all, or a list such as 0,8,16-23; ranks count from 0");
  }
  CHECK(refusal({"run", "a.json", "--trace", "t", "--ranks", "1,,2"}) ==
        "--ranks: \"\" is not a rank | all, or a list such as 0,8,16-23; ranks count from 0");
  CHECK(refusal({"run", "a.json", "--trace", "t", "--window", "2 ms,1 ms"}) == "--window: ends before it begins | ");
  CHECK(refusal({"run", "a.json", "--trace", "t", "--window", "1 ms"}) ==
        "--window: \"1 ms\" is not two times | for example --window \"10 ms,25 ms\"");
  CHECK(refusal({"run"}).find("meshweave run --help") != std::string::npos);
  CHECK(refusal({}).find("meshweave --help") != std::string::npos);
  CHECK(refusal({"run", "a.json", "--jobs", "0"}) != "accepted");
}

TEST_CASE("Empty arguments are refused, whatever they are for") {
  const std::string hint = " | shell variables that are not set give empty arguments";
  for (const char* option :
       {"--trace", "--ranks", "--window", "--executor", "--progress", "--print-program", "--jobs", "--set", "--vary"}) {
    CHECK(refusal({"run", "a.json", option, ""}) == std::string("the argument after ") + option + " is empty" + hint);
    const std::string with_equals = std::string(option) + "=";
    CHECK(refusal({"run", "a.json", with_equals}) == with_equals + " is followed by nothing" + hint);
  }
  CHECK(refusal({"run", ""}) == "the argument after run is empty" + hint);
  CHECK(refusal({"list", ""}) == "the argument after list is empty" + hint);
  CHECK(refusal({""}) == "the first argument is empty" + hint);
  // An empty text is a value.
  CHECK(parse_command_line({"run", "a.json", "--set", "/name="}).overrides[0].value.empty());
}

TEST_CASE("Nothing stands beside --print-program") {
  CHECK(refusal({"run", "a.json", "--print-program", "--json"}) ==
        "--print-program prints text and stops: --json has no effect | leave one of them out");
  CHECK(refusal({"run", "a.json", "--print-program", "0", "--trace", "t.json"}) ==
        "--print-program prints text and stops: --trace has no effect | leave one of them out");
  CHECK(refusal({"run", "a.json", "--stats", "--print-program"}) ==
        "--print-program prints text and stops: --stats has no effect | leave one of them out");
  CHECK(refusal({"run", "a.json", "--print-program", "-1"}) ==
        "--print-program: \"-1\" is no body | bodies count from 0");
}

TEST_CASE("A value is varied once, and by nothing replaced") {
  CHECK(refusal({"run", "a.json", "--vary", "/seed=1,2", "--vary", "/seed=3"}) ==
        "--vary: /seed is varied twice | one --vary takes all values, for example --vary /batch/micro=1,2,4");
  CHECK(refusal({"run", "a.json", "--vary", "/batch/micro=1,2", "--vary", "/batch={}"}) ==
        "--vary: /batch replaces /batch/micro, which is varied before it | give --vary /batch first");
  CHECK(refusal({"run", "a.json", "--vary", "/seed=1,2", "--set", "/seed=3"}) ==
        "--vary /seed replaces what --set /seed gives | leave one of them out");
  CHECK(refusal({"run", "a.json", "--set", "/batch/micro=3", "--vary", "/batch={}"}) ==
        "--vary /batch replaces what --set /batch/micro gives | leave one of them out");
  CHECK(refusal({"run", "a.json", "--vary", "/seed=1,,2"}) ==
        "--vary /seed: a value is empty | \"\" is the empty text");
  // Inside a value that was set, or varied before; and beside one of a similar name.
  CHECK(refusal({"run", "a.json", "--set", "/batch={}", "--vary", "/batch/micro=1,2"}) == "accepted");
  CHECK(refusal({"run", "a.json", "--vary", "/batch={}", "--vary", "/batch/micro=1,2"}) == "accepted");
  CHECK(refusal({"run", "a.json", "--vary", "/perturb/-={}", "--vary", "/perturb/-={}"}) == "accepted");  // two entries
  CHECK(refusal({"run", "a.json", "--set", "/batch/micro_batches=1", "--vary", "/batch/micro=1,2"}) == "accepted");
}

TEST_CASE("Help is a result, for the command and for each subcommand") {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{{"--help"},
                                                                                         {"run", "--help"},
                                                                                         {"check", "--help"},
                                                                                         {"explain", "--help"},
                                                                                         {"analyze", "--help"},
                                                                                         {"compare", "--help"},
                                                                                         {"list", "--help"},
                                                                                         {"schema", "--help"}}) {
    const CommandLine line = parse_command_line(arguments);
    CHECK(line.command == Command::help);
    CHECK(line.help.find("meshweave") != std::string::npos);
  }
  CHECK(parse_command_line({"run", "--help"}).help.find("--vary") != std::string::npos);
  CHECK(parse_command_line({"--version"}).help == std::string(version_text()) + "\n");
}
