// Text for people: escapes and counts.
#include "sim/base/text.h"

#include <catch2/catch.hpp>

using namespace meshweave;
using namespace std::string_literals;

TEST_CASE("Control characters become visible, everything else stays") {
  CHECK(escaped("a plain name × 2 → ö 🙂 \\") == "a plain name × 2 → ö 🙂 \\");
  CHECK(escaped("line\nline\ttab\rreturn") == "line\\nline\\ttab\\rreturn");
  CHECK(escaped("\x1b[31mred\x07"s + '\0' + "\x7f") == "\\x1b[31mred\\x07\\x00\\x7f");
  CHECK(escaped("\xc2\x9b"
                "31m") == "\\xc2\\x9b31m");  // C1: an escape sequence of one character
  CHECK(escaped("\xc2\xa0") == "\xc2\xa0");  // the first beyond C1
  CHECK(escaped("").empty());
}

TEST_CASE("Bytes that are not UTF-8 become visible") {
  CHECK(escaped("a\xff"
                "b") == "a\\xffb");
  CHECK(escaped("\xe2\x82") == "\\xe2\\x82");           // cut off
  CHECK(escaped("\xc0\x80") == "\\xc0\\x80");           // overlong
  CHECK(escaped("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  CHECK(escaped("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
}

TEST_CASE("Lengths of UTF-8 sequences") {
  CHECK(utf8_length("") == 0);
  CHECK(utf8_length("ab") == 1);
  CHECK(utf8_length("öb") == 2);
  CHECK(utf8_length("→b") == 3);
  CHECK(utf8_length("🙂b") == 4);
  CHECK(utf8_length("\x80") == 0);
}

TEST_CASE("A count of one has its noun in the singular") {
  CHECK(count_text(0, "node") == "0 nodes");
  CHECK(count_text(1, "node") == "1 node");
  CHECK(count_text(96, "node") == "96 nodes");
  CHECK(count_text(1, "micro-batch") == "1 micro-batch");
  CHECK(count_text(2, "micro-batch") == "2 micro-batches");
}
