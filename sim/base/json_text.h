// Writes JSON text: one value after another into a string, with commas and indentation put where they belong.
//
// Example:  JsonText j(2);  j.object();  j.key("mfu");  j.number(0.5);  j.end();  j.take()  →  {\n  "mfu": 0.5\n}
//
// Doubles are printed as the shortest decimal that reads back as the same double; NaN and infinities as null.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshweave {

// Appends `text` in quotes, escaped; bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);
void append_json_number(std::string& out, double value);

class JsonText {
 public:
  // `indent` spaces per level; 0 writes everything on one line.
  explicit JsonText(int indent = 0) : indent_(indent) {}

  void object() { open('{', '}'); }
  void array() { open('[', ']'); }
  void end();  // of the innermost object or array
  void key(std::string_view name);

  void string(std::string_view value);
  void number(double value);
  void integer(std::int64_t value);
  void boolean(bool value);
  void null();
  // A value that is JSON text already; its own line breaks are kept.
  void raw(std::string_view json);

  void field(std::string_view name, std::string_view value) { key(name), string(value); }
  void field(std::string_view name, const char* value) { key(name), string(value); }
  void field(std::string_view name, double value) { key(name), number(value); }
  void field(std::string_view name, std::int64_t value) { key(name), integer(value); }
  void field(std::string_view name, int value) { key(name), integer(value); }
  void field(std::string_view name, bool value) { key(name), boolean(value); }

  const std::string& text() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  void open(char opening, char closing);
  void separate();  // before a value or a key
  void new_line();

  struct Level {
    char closing = '}';
    bool empty = true;
  };
  std::string out_;
  std::vector<Level> levels_;
  int indent_ = 0;
  bool after_key_ = false;
};

}  // namespace meshweave
