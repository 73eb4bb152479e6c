// Every broken scenario of tests/scenario/cases gets its message; what no file of cases can hold is tested here by
// itself.
//
// After a change of messages, MESHWEAVE_ACCEPT=1 build/dev/tests/test_scenario writes the expected ones anew; read the
// difference.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <ctime>

#include "sim/base/error.h"
#include "sim/scenario/json_document.h"
#include "sim/scenario/reader.h"
#include "tests/scenario/broken_cases.h"
#include "tests/scenario/test_library.h"

using namespace meshweave;

namespace {

// A folder that lives as long as the value. It is named "cases", as the cases that name a file beside them expect.
class CasesFolder {
 public:
  CasesFolder() { std::filesystem::create_directories(path()); }
  ~CasesFolder() { std::filesystem::remove_all(above_); }
  CasesFolder(const CasesFolder&) = delete;
  CasesFolder& operator=(const CasesFolder&) = delete;

  std::filesystem::path path() const { return above_ / "cases"; }

 private:
  std::filesystem::path above_ =
      std::filesystem::temp_directory_path() / ("meshweave-test-" + std::to_string(getpid()));
};

void erase_all(std::string& text, const std::string& piece) {
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece)) text.erase(at, piece.size());
}

// The message without the folders of the cases and of the sources.
std::string message_of(const std::filesystem::path& path) {
  std::string message = "accepted\n";
  try {
    read_scenario(path.string());
  } catch (const InputError& error) {
    message = error.what();
  }
  erase_all(message, path.parent_path().string() + "/");
  erase_all(message, MESHWEAVE_SOURCE_DIR "/");
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

}  // namespace

TEST_CASE("Every broken scenario gets its message") {
  const TestLibrary library;
  const CasesFolder folder;
  std::vector<CaseFile> files = read_case_files();
  const auto file_of = [&](const BrokenCase& entry) { return folder.path() / (entry.name + ".json"); };
  for (const CaseFile& file : files)
    for (const BrokenCase& entry : file.cases) std::ofstream(file_of(entry), std::ios::binary) << entry.text;
  std::size_t cases = 0;
  for (CaseFile& file : files) {
    for (BrokenCase& entry : file.cases) {
      ++cases;
      const std::string message = message_of(file_of(entry));
      const std::string place = file.path.string() + ":" + std::to_string(entry.line) + ": " + entry.name;
      if (message == "accepted\n")
        FAIL_CHECK(place << " is accepted:\n" << entry.text);
      else if (!accepts() && message != entry.message)
        FAIL_CHECK(place << " expects\n" << entry.message << "but gets\n" << message);
      entry.message = message;
    }
    if (accepts()) write_case_file(file);
  }
  // A guard against folders that are not read; the number may fall when a refusal goes.
  CHECK(cases >= 180);
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
  const CasesFolder folder;
  CHECK_THROWS_AS(read_scenario((folder.path() / "nowhere.json").string()), IoError);
  CHECK_THROWS_AS(read_scenario(folder.path().string()), IoError);
}
