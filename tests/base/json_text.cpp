#include "sim/base/json_text.h"

#include <catch2/catch.hpp>
#include <limits>

using meshweave::JsonText;

TEST_CASE("JSON text puts commas and indentation where they belong") {
  JsonText j(2);
  j.object();
  j.field("a", 1);
  j.key("b"), j.array(), j.string("x"), j.null(), j.end();
  j.key("c"), j.object(), j.end();
  j.end();
  CHECK(j.text() == "{\n  \"a\": 1,\n  \"b\": [\n    \"x\",\n    null\n  ],\n  \"c\": {}\n}");
}

TEST_CASE("JSON text prints doubles so that they read back, and what JSON cannot hold as null") {
  JsonText j;
  j.array();
  j.number(0.1), j.number(1e300), j.number(1.0 / 3), j.number(std::numeric_limits<double>::quiet_NaN());
  j.end();
  CHECK(j.text() == "[0.1,1e+300,0.3333333333333333,null]");
}

TEST_CASE("JSON strings are escaped, and bytes that are not UTF-8 are replaced") {
  std::string out;
  meshweave::append_json_string(out, "a\"\\\n\t\r\x01 \xc3\xa9 \xff\xc0\x80 \xed\xa0\x80");
  // 0xff, the overlong 0xc0 0x80 and the surrogate 0xed 0xa0 0x80 are six bytes that stand for nothing.
  const std::string bad = "\xef\xbf\xbd";
  CHECK(out == "\"a\\\"\\\\\\n\\t\\r\\u0001 \xc3\xa9 " + bad + bad + bad + " " + bad + bad + bad + "\"");
  out.clear();
  meshweave::append_json_string(out, "\x7f\xc2\x9b\xc2\xa0");  // DEL, the last but one of C1, the first beyond C1
  CHECK(out == "\"\\u007f\\u009b\xc2\xa0\"");
}
