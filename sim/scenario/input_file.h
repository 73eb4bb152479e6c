// An input file under reading, and the mistakes found in it and in the files that it refers to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/scenario/json_document.h"
#include "sim/scenario/reader.h"

namespace meshweave {

// What an override puts on the way to its value.
struct Made {
  std::string pointer;
  std::size_t setting = 0;  // index of the override
  bool whole = false;       // all that lies in it is the override's, not the container alone
};

struct InputFile {
  std::string name;  // as messages show it
  std::string text;
  Json root;
  std::vector<Override> overrides;  // their values stand in `root` but not in `text`
  std::vector<Made> made;           // by the overrides
};

// Collects mistakes, up to max_diagnostics, with positions looked up from pointers.
class Diagnostics {
 public:
  // A mistake at the value of `pointer`, or at its key.
  void at_value(const InputFile& file, std::string_view pointer, std::string message, std::string hint = {});
  void at_key(const InputFile& file, std::string_view pointer, std::string message, std::string hint = {});
  // A mistake in the text itself, before there is a document.
  void at_offset(const InputFile& file, JsonError error);

  bool empty() const { return found_.empty(); }
  bool full() const { return found_.size() >= max_diagnostics; }
  std::size_t count() const { return found_.size(); }
  // Throws InputError with everything found, in order of position; returns when nothing was.
  void throw_if_any();

 private:
  void add(const InputFile& file, std::string_view pointer, bool at_key, std::string message, std::string hint);

  std::vector<Diagnostic> found_;
};

// The content of `path`; throws IoError when it cannot be read or is larger than largest_document.
std::string read_text_file(const std::string& path);
// Parses file.text into file.root; false after reporting why not.
bool parse_input(InputFile& file, Diagnostics& diagnostics);
// Puts the overrides' values into file.root. Missing objects on the way are made, since every key has a default, a
// name on the way becomes { "base": name }, and "-" appends to a list. Reports pointers that lead nowhere.
void apply_overrides(InputFile& file, std::vector<Override> overrides, Diagnostics& diagnostics);

}  // namespace meshweave
