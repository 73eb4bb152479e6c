// The broken scenarios of tests/scenario/cases, one file by topic, and the message that each one gets.
//
// A case file begins with a sentence on its topic. A case is
//
//   === KIND NAME
//   "layout": { "language": { "tp": 2, "pp": 2, "dp": 3 } }
//   ---
//   NAME.json:5:27: error: /layout/language: ... (the whole message: positions, source lines, carets, hints)
//
// What stands above the dashes overrides the base, which is good_scenario of test_library.h: a line "key": value takes
// the place of the base's section of that name or comes behind its last one; "key" alone leaves the section out. When
// the first line does not begin with a quotation mark, the lines are the whole text instead. \xNN is the byte NN.
// The kind is text (no JSON), form (the JSON Schema refuses it too) or sense (the schema accepts it).
// tests/scenario/cases.py reads the same files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace meshweave {

struct BrokenCase {
  std::string kind;
  std::string name;
  int line = 0;                   // of its heading in the case file
  std::vector<std::string> body;  // as it stands in the case file
  std::string text;               // of the scenario
  std::string message;            // expected
};

struct CaseFile {
  std::filesystem::path path;
  std::string topic;  // the lines before the first case
  std::vector<BrokenCase> cases;
};

// All case files by name. Throws std::runtime_error naming file and line where one is not well formed, and when two
// cases have one name.
std::vector<CaseFile> read_case_files();

// The file with the messages that its cases hold now.
void write_case_file(const CaseFile& file);

}  // namespace meshweave
