#include "tests/scenario/broken_cases.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "tests/scenario/test_library.h"

namespace meshweave {

namespace {

// What stands between the first quotation marks of `line`.
std::string key_of(const std::string& line) {
  const std::size_t begin = line.find('"') + 1;
  return line.substr(begin, line.find('"', begin) - begin);
}

std::string joined(const std::vector<std::string>& lines, const std::string& between) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : between) + line;
  return text;
}

// The sections of good_scenario, one a line, without indentation and comma.
std::vector<std::string> base_sections() {
  std::vector<std::string> sections;
  std::istringstream lines(good_scenario);
  for (std::string line; std::getline(lines, line);) {
    if (line.find('"') == std::string::npos) continue;
    line = line.substr(line.find('"'));
    if (line.back() == ',') line.pop_back();
    sections.push_back(line);
  }
  return sections;
}

std::string overridden_base(const std::vector<std::string>& overrides) {
  std::vector<std::string> sections = base_sections();
  for (const std::string& line : overrides) {
    const auto same = std::find_if(sections.begin(), sections.end(),
                                   [&](const std::string& section) { return key_of(section) == key_of(line); });
    if (line == '"' + key_of(line) + '"')
      sections.erase(same);
    else if (same == sections.end())
      sections.push_back(line);
    else
      *same = line;
  }
  return "{\n  " + joined(sections, ",\n  ") + "\n}\n";
}

// \xNN becomes the byte NN. No JSON text has \x.
std::string with_bytes(std::string text) {
  for (std::size_t at = text.find("\\x"); at != std::string::npos; at = text.find("\\x", at + 1))
    text.replace(at, 4, 1, static_cast<char>(std::stoi(text.substr(at + 2, 2), nullptr, 16)));
  return text;
}

std::string text_of(const std::vector<std::string>& body) {
  if (!body.empty() && body[0].front() == '"') return with_bytes(overridden_base(body));
  std::string text;
  for (const std::string& line : body) text += line + "\n";
  return with_bytes(text);
}

CaseFile read_case_file(const std::filesystem::path& path) {
  CaseFile file{path, {}, {}};
  enum { topic, body, message } part = topic;
  std::ifstream stream(path, std::ios::binary);
  int number = 0;
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error(path.string() + ":" + std::to_string(number) + ": " + what);
  };
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.starts_with("=== ")) {
      if (part == body) fail("the case before has no line ---");
      part = body;
      BrokenCase& entry = file.cases.emplace_back();
      std::istringstream(line.substr(4)) >> entry.kind >> entry.name;
      entry.line = number;
      if (entry.kind != "text" && entry.kind != "form" && entry.kind != "sense") fail("no kind of case: " + entry.kind);
      if (entry.name.empty()) fail("a case needs a name");
    } else if (part == topic) {
      file.topic += line + "\n";
    } else if (part == body && line == "---") {
      part = message;
    } else if (part == body) {
      file.cases.back().body.push_back(line);
    } else {
      file.cases.back().message += line + "\n";
    }
  }
  if (part == body) fail("the last case has no line ---");
  for (BrokenCase& entry : file.cases) {
    while (entry.message.ends_with("\n\n")) entry.message.pop_back();
    entry.text = text_of(entry.body);
  }
  return file;
}

}  // namespace

std::vector<CaseFile> read_case_files() {
  std::set<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(MESHWEAVE_SOURCE_DIR "/tests/scenario/cases"))
    paths.insert(entry.path());
  std::vector<CaseFile> files;
  std::set<std::string> names;
  for (const std::filesystem::path& path : paths) {
    files.push_back(read_case_file(path));
    for (const BrokenCase& entry : files.back().cases)
      if (!names.insert(entry.name).second)
        throw std::runtime_error(path.string() + ":" + std::to_string(entry.line) + ": a second case " + entry.name);
  }
  return files;
}

void write_case_file(const CaseFile& file) {
  std::ofstream stream(file.path, std::ios::binary);
  stream << file.topic;
  for (const BrokenCase& entry : file.cases) {
    stream << (&entry == &file.cases.front() ? "" : "\n") << "=== " << entry.kind << ' ' << entry.name << '\n';
    for (const std::string& line : entry.body) stream << line << '\n';
    stream << "---\n" << entry.message;
  }
}

}  // namespace meshweave
