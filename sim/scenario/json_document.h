// A JSON document as the readers see it: a tree with ordered members, without positions.
//
// Positions are found again from the text when something is wrong: a second pass walks to the value that a JSON
// pointer names, so that reading a good file pays nothing for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshweave {

struct Json {
  enum class Kind : std::uint8_t { null, boolean, integer, number, string, array, object };

  Kind kind = Kind::null;
  bool boolean = false;
  std::int64_t integer = 0;       // integer only
  double number = 0;              // integer (rounded) and number
  std::string text;               // string only
  std::vector<std::string> keys;  // object only: keys[i] names items[i], in file order
  std::vector<Json> items;        // array and object

  static Json make(bool value);
  static Json make(std::int64_t value);
  static Json make(double value);
  static Json make(std::string_view value);
  static Json make_array() { return with_kind(Kind::array); }
  static Json make_object() { return with_kind(Kind::object); }

  bool is(Kind k) const { return kind == k; }
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key);
  // Appends a member; the key must be new.
  Json& add(std::string_view key, Json value);

 private:
  static Json with_kind(Kind kind);
};

// "an object", "an integer", …
std::string_view noun_of(Json::Kind kind);

// What is wrong with a text that is not JSON, or that the limits below refuse.
struct JsonError {
  std::size_t offset = 0;  // byte offset into the text
  std::string pointer;     // where it is known (duplicate keys)
  std::string message;
  std::string hint;
};

constexpr std::size_t largest_document = std::size_t{16} << 20;  // bytes
constexpr int deepest_nesting = 64;

// Parses `text` as JSON with // and /* */ comments. Refuses duplicate keys, nesting deeper than `deepest_nesting`,
// ill-formed UTF-8 and texts larger than `largest_document`.
std::optional<Json> parse_json(std::string_view text, JsonError& error);

// Two spaces of indentation; an array or object that fits on one line of 100 columns stays on it. No newline at the
// end.
std::string format_json(const Json& value);
// The same on one line, however long: { "degree": 4, "kind": "ring" }.
std::string format_json_line(const Json& value);

// RFC 6901: "~" and "/" in `key` are escaped.
std::string pointer_to(std::string_view parent, std::string_view key);
std::string pointer_to(std::string_view parent, std::size_t index);
// The unescaped keys of a pointer; empty when it does not begin with "/" or ends in a lone "~".
std::optional<std::vector<std::string>> split_pointer(std::string_view pointer);

// Byte offset of the value that `pointer` names in `text`, or of its key; of the nearest enclosing value when the
// text has no such member.
std::size_t find_offset(std::string_view text, std::string_view pointer, bool at_key);

}  // namespace meshweave
