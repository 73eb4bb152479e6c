// The corpus of broken scenarios: every file of tests/scenario/bad gives the message in the .txt beside it.
//
// text/ is no JSON, form/ breaks the schema, sense/ keeps to the schema and contradicts itself. After a change of
// messages, MESHWEAVE_ACCEPT=1 build/dev/tests/test_scenario writes the expected files anew; read the difference.
#include <catch2/catch.hpp>
#include <ctime>
#include <set>

#include "sim/base/error.h"
#include "sim/scenario/json_document.h"
#include "sim/scenario/reader.h"
#include "tests/scenario/test_library.h"

using namespace meshweave;

namespace {

const std::filesystem::path corpus = MESHWEAVE_SOURCE_DIR "/tests/scenario/bad";

// The message without the folder of the sources.
std::string message_of(const std::filesystem::path& path) {
  std::string message = "accepted\n";
  try {
    read_scenario(path.string());
  } catch (const InputError& error) {
    message = error.what();
  }
  const std::string folder = MESHWEAVE_SOURCE_DIR "/";
  for (std::size_t at = message.find(folder); at != std::string::npos; at = message.find(folder))
    message.erase(at, folder.size());
  return message;
}

std::string message_of_text(const std::string& text) {
  try {
    parse_scenario(text, "bad.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

// Processor time: what else the machine does must not matter.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::set<std::filesystem::path> files_in_corpus() {
  std::set<std::filesystem::path> files;
  for (const auto& file : std::filesystem::recursive_directory_iterator(corpus))
    if (file.path().extension() == ".json") files.insert(file.path());
  return files;
}

}  // namespace

TEST_CASE("Every broken scenario gets its message") {
  const TestLibrary library;
  const auto files = files_in_corpus();
  CHECK(files.size() >= 60);
  for (const std::filesystem::path& file : files) {
    const std::string message = message_of(file);
    std::filesystem::path expected = file;
    expected.replace_extension(".txt");
    if (accepts()) std::ofstream(expected, std::ios::binary) << message;
    INFO(file.string());
    CHECK(message != "accepted\n");
    CHECK(message == read_file(expected));
  }
}

TEST_CASE("Ten megabytes of nesting are refused at the first level too many") {
  const TestLibrary library;
  const double begin = processor_seconds();
  for (const char* open : {"[", "{\"a\":"}) {
    std::string text;
    while (text.size() < 10'000'000) text += open;
    const std::string message = message_of_text(text);
    // The opening bracket of the 65th level.
    const std::size_t column = 64 * std::string(open).size() + 1;
    CHECK(message.substr(0, message.find('\n')) ==
          "bad.json:1:" + std::to_string(column) + ": error: nested deeper than 64 levels");
  }
  // Generous: it takes milliseconds.
  CHECK(processor_seconds() - begin < 10);
}

TEST_CASE("A file beyond the size limit is refused before it is parsed") {
  const TestLibrary library;
  CHECK(message_of_text(std::string(largest_document + 1, ' ')).find("bad.json:1:1: error: is larger than 16 MiB") ==
        0);
}

TEST_CASE("Large objects and arrays are read in linear time") {
  const TestLibrary library;
  const double begin = processor_seconds();
  std::string keys = "{";
  for (int i = 0; i < 100'000; ++i) keys += "\"k" + std::to_string(i) + "\": 0, ";
  const std::string message = message_of_text(keys + "\"z\": 0 }");
  CHECK(message.find("\"cluster\" is missing") != std::string::npos);
  std::string items = "{ \"perturb\": [";
  for (int i = 0; i < 100'000; ++i) items += "{}, ";
  CHECK(message_of_text(items + "{} ] }").find("\"cluster\" is missing") != std::string::npos);
  CHECK(processor_seconds() - begin < 30);
}

TEST_CASE("At most twenty mistakes are reported, in the order of the file") {
  const TestLibrary library;
  std::string text = "{\n";
  for (int i = 0; i < 30; ++i) text += "\"mistake" + std::to_string(i) + "\": 0,\n";
  try {
    parse_scenario(text + "\"last\": 0 }", "bad.json");
    FAIL("accepted");
  } catch (const InputError& error) {
    REQUIRE(error.diagnostics().size() == max_diagnostics);
    for (std::size_t i = 1; i < max_diagnostics; ++i)
      CHECK(error.diagnostics()[i - 1].line <= error.diagnostics()[i].line);
  }
}

TEST_CASE("A scenario that is not there is an input/output error") {
  CHECK_THROWS_AS(read_scenario((corpus / "nowhere.json").string()), IoError);
  CHECK_THROWS_AS(read_scenario(corpus.string()), IoError);
}
