// The JSON document: what it keeps, what it refuses, and how positions are found again.
#include "sim/scenario/json_document.h"

#include <catch2/catch.hpp>

using namespace meshweave;

namespace {

Json parsed(std::string_view text) {
  JsonError error;
  const std::optional<Json> value = parse_json(text, error);
  INFO(error.message);
  REQUIRE(value);
  return *value;
}

JsonError refused(std::string_view text) {
  JsonError error;
  CHECK_FALSE(parse_json(text, error));
  return error;
}

// "line:column" of a pointer.
std::string place(std::string_view text, std::string_view pointer, bool at_key = false) {
  const std::size_t offset = find_offset(text, pointer, at_key);
  int line = 1;
  std::size_t start = 0;
  for (std::size_t i = 0; i < offset; ++i)
    if (text[i] == '\n') ++line, start = i + 1;
  return std::to_string(line) + ":" + std::to_string(offset - start + 1);
}

}  // namespace

TEST_CASE("A document keeps the order of members and the kind of numbers") {
  const Json root = parsed(R"({ "b": 1, "a": [ true, null, "x" ], "c": 2.5, "d": 40e6 /* whole */, "e": -3 })");
  CHECK(root.keys == std::vector<std::string>{"b", "a", "c", "d", "e"});
  CHECK(root.find("b")->integer == 1);
  CHECK(root.find("a")->items[0].boolean);
  CHECK(root.find("a")->items[1].is(Json::Kind::null));
  CHECK(root.find("a")->items[2].text == "x");
  CHECK(root.find("c")->number == 2.5);
  CHECK(root.find("d")->is(Json::Kind::integer));
  CHECK(root.find("d")->integer == 40'000'000);
  CHECK(root.find("e")->integer == -3);
  CHECK(root.find("f") == nullptr);
}

TEST_CASE("A whole number beyond int64 is a number") {
  CHECK(parsed("9223372036854775807").integer == 9223372036854775807);
  CHECK(parsed("9223372036854775808").is(Json::Kind::number));
  CHECK(parsed("-1e300").is(Json::Kind::number));
}

TEST_CASE("Duplicate keys are refused at the second one") {
  const JsonError error = refused(R"({ "a": { "b": [ 0, { "c": 1, "c": 2 } ] } })");
  CHECK(error.pointer == "/a/b/1/c");
  CHECK(error.message == "is given twice");
  CHECK(error.offset == 29);  // the quote of the second "c"
  parsed(R"([ { "c": 1 }, { "c": 2 } ])");
}

TEST_CASE("Nesting is limited") {
  const std::string deep(deepest_nesting, '[');
  parsed(deep + std::string(deepest_nesting, ']'));
  CHECK(refused(deep + "[" + "]" + std::string(deepest_nesting, ']')).offset == 64);
}

TEST_CASE("UTF-8 is checked by the table of the Unicode standard") {
  for (const char* good :
       {"\"\xc2\x80\"", "\"\xe0\xa0\x80\"", "\"\xed\x9f\xbf\"", "\"\xf0\x90\x80\x80\"", "\"\xf4\x8f\xbf\xbf\""})
    parsed(good);
  for (const char* bad : {"\"\x80\"", "\"\xc1\x80\"", "\"\xe0\x9f\x80\"", "\"\xed\xa0\x80\"", "\"\xf0\x8f\x80\x80\"",
                          "\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xe2\x82\"", "\"\xc3"})
    CHECK(refused(bad).offset == 1);
}

TEST_CASE("Positions are found from pointers") {
  const std::string text =
      "{ // \"a\": in a comment\n"
      "  \"a\": { \"x\" : 17 , /* here */ \"y\": [ 1.5, -2,\n"
      "    \"s\" ] },\n"
      "  \"b/c~d\": true,\n"
      "  \"e\": null }\n";
  CHECK(place(text, "") == "1:1");
  CHECK(place(text, "/a") == "2:8");
  CHECK(place(text, "/a", true) == "2:3");
  CHECK(place(text, "/a/x") == "2:16");
  CHECK(place(text, "/a/x", true) == "2:10");
  CHECK(place(text, "/a/y", true) == "2:32");
  CHECK(place(text, "/a/y/0") == "2:39");
  CHECK(place(text, "/a/y/1") == "2:44");
  CHECK(place(text, "/a/y/2") == "3:5");
  CHECK(place(text, "/b~1c~0d") == "4:12");
  CHECK(place(text, "/e") == "5:8");
  SECTION("a member that is missing stands at what would hold it") {
    CHECK(place(text, "/a/z") == "2:8");
    CHECK(place(text, "/a/y/7") == "2:37");
    CHECK(place(text, "/nothing/at/all") == "1:1");
    CHECK(place(text, "/e/f") == "5:8");
  }
}

TEST_CASE("Pointers are split and escaped") {
  CHECK(pointer_to("/a", "b/c~d") == "/a/b~1c~0d");
  CHECK(split_pointer("/a/b~1c~0d/") == std::vector<std::string>{"a", "b/c~d", ""});
  CHECK_FALSE(split_pointer("a"));
  CHECK_FALSE(split_pointer(""));
  CHECK_FALSE(split_pointer("/a~2"));
  CHECK_FALSE(split_pointer("/a~"));
}

TEST_CASE("A document is written readably") {
  const std::string text =
      "{\n"
      "  \"a\": { \"b\": [1, 2.5, \"x\\n\\u0001\\u007f\\u009b\"] },\n"
      "  \"c\": []\n"
      "}";
  CHECK(format_json(parsed(text)) == text);
  CHECK(format_json_line(parsed(text)) == "{ \"a\": { \"b\": [1, 2.5, \"x\\n\\u0001\\u007f\\u009b\"] }, \"c\": [] }");
}
