// The text of a diagnostic, and the nearest name of a hint.
#include "sim/base/error.h"

#include <catch2/catch.hpp>

using namespace meshweave;

TEST_CASE("A diagnostic shows its place, the line, a caret and the hint") {
  Diagnostic d;
  d.file = "scenarios/a.json";
  d.line = 6;
  d.column = 12;
  d.pointer = "/cluster/nodes";
  d.message = "must be at least 1 (is 0)";
  d.hint = "one node is enough";
  d.source_line = "  \"nodes\": 0";
  CHECK(format(d) ==
        "scenarios/a.json:6:12: error: /cluster/nodes: must be at least 1 (is 0)\n"
        "      \"nodes\": 0\n"
        "               ^\n"
        "  hint: one node is enough\n");
}

TEST_CASE("A diagnostic leaves out what is not known") {
  CHECK(format({{}, 0, 0, {}, "no such option", {}, {}}) == "error: no such option\n");
  CHECK(format({"--set /a=1", 0, 0, "/a", "unknown key", {}, {}}) == "--set /a=1: error: /a: unknown key\n");
  CHECK(InputError("no such option").what() == std::string("error: no such option\n"));
}

TEST_CASE("The caret stands below its character after tabs and multi-byte characters") {
  Diagnostic d{"f", 1, 0, {}, "m", {}, "\t\"ö\": x"};
  d.column = 8;  // the x: tab 1, quotes and two bytes of ö 2-5, colon 6, space 7
  CHECK(format(d) ==
        "f:1:8: error: m\n"
        "    \t\"ö\": x\n"
        "    \t     ^\n");
}

TEST_CASE("A long source line is cut around the caret") {
  Diagnostic d{"f", 1, 0, {}, "m", {}, std::string(300, 'a') + "!" + std::string(300, 'b')};
  d.column = 301;
  // 50 columns stay on the left of the caret and 50 from it on.
  CHECK(format(d) == "f:1:301: error: m\n    ..." + std::string(50, 'a') + "!" + std::string(49, 'b') + "...\n    " +
                         std::string(53, ' ') + "^\n");
}

TEST_CASE("Nothing in a diagnostic acts on a terminal") {
  const Diagnostic d{"a\x1b.json", 1, 5, "/a\n", "m\x07", "h\t", "\t\x1b\x1b: x"};
  CHECK(format(d) ==
        "a\\x1b.json:1:5: error: /a\\n: m\\x07\n"
        "    \t\\x1b\\x1b: x\n"
        "    \t         ^\n"
        "  hint: h\\t\n");
}

TEST_CASE("The nearest name is within three edits and less than half of the name") {
  const std::vector<std::string> keys{"global", "micro", "tp", "zero", "sequence_parallel"};
  CHECK(nearest_name("globl", keys) == "global");
  CHECK(nearest_name("micor", keys) == "micro");  // a swap is one edit
  CHECK(nearest_name("tpp", keys) == "tp");
  CHECK(nearest_name("dpp", {"pp", "dp"}) == "dp");
  CHECK(nearest_name("sequenceparalel", keys) == "sequence_parallel");
  CHECK(nearest_name("x", keys).empty());
  CHECK(nearest_name("gradient_accumulation", keys).empty());
  CHECK(nearest_name("", keys).empty());
}
