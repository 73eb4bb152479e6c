// The fuzz target's property on its seeds and on simple damage to them; runs without clang.
#include <catch2/catch.hpp>

#include "sim/base/random.h"
#include "tests/fuzz/try_scenario.h"
#include "tests/scenario/broken_cases.h"
#include "tests/scenario/test_library.h"

using namespace meshweave;

TEST_CASE("Seeds of the fuzz target hold its property") {
  const TestLibrary library;
  CHECK(try_scenario(good_scenario));
  for (const auto& file : std::filesystem::directory_iterator(MESHWEAVE_SOURCE_DIR "/tests/fuzz/seeds")) {
    INFO(file.path().string());
    CHECK(try_scenario(read_file(file.path())));
  }
  for (const CaseFile& file : read_case_files())
    for (const BrokenCase& entry : file.cases) {
      INFO(entry.name);
      CHECK_FALSE(try_scenario(entry.text));
    }
  for (const auto& file : std::filesystem::recursive_directory_iterator(MESHWEAVE_SOURCE_DIR "/tests/scenario/library"))
    if (file.is_regular_file()) CHECK_FALSE(try_scenario(read_file(file.path())));
}

TEST_CASE("A scenario cut off anywhere is refused") {
  const TestLibrary library;
  // All characters but the closing bracket's newline are needed.
  for (std::size_t length = 0; length + 1 < good_scenario.size(); ++length)
    CHECK_FALSE(try_scenario(std::string_view(good_scenario).substr(0, length)));
}

TEST_CASE("Damaged scenarios hold the property") {
  const TestLibrary library;
  const std::string pieces[] = {"0",    "-1", "1e308", "9223372036854775807", "null", "{}", "[]", "\"\"", "\"base\"",
                                "\x80", ",",  "}"};
  const std::string everything = read_file(MESHWEAVE_SOURCE_DIR "/tests/fuzz/seeds/everything.json");
  for (std::uint64_t i = 0; i < 1000; ++i) {
    std::string text = i % 2 == 0 ? good_scenario : everything;
    const std::size_t at = random_bits(1, stream_key("place"), i) % text.size();
    const std::size_t length = random_bits(1, stream_key("length"), i) % 8;
    text.replace(at, length, pieces[random_bits(1, stream_key("piece"), i) % std::size(pieces)]);
    try_scenario(text);
  }
}
