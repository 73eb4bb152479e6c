// Parsing and locating: the two passes of nlohmann's SAX parser over a text.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "sim/base/text.h"
#include "sim/scenario/json_document.h"

namespace meshweave {
namespace {

// Offset of the first byte that is not UTF-8.
std::optional<std::size_t> find_bad_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error … - why; last read: '…'; expected x"
// becomes "syntax error … - why; expected x".
std::string readable(std::string_view what) {
  if (const auto column = what.find(", column "); column != std::string_view::npos)
    if (const auto colon = what.find(": ", column); colon != std::string_view::npos) what.remove_prefix(colon + 2);
  if (const auto bracket = what.find("] "); what.starts_with("[json.") && bracket != std::string_view::npos)
    what.remove_prefix(bracket + 2);
  std::string text(what);
  if (const auto last = text.find("; last read: "); last != std::string::npos) {
    const auto next = text.rfind("; expected ");
    text.erase(last, next == std::string::npos || next < last ? std::string::npos : next - last);
  }
  return text;
}

// Events of nlohmann's parser, with every scalar reduced to a Json.
class Events {
 public:
  virtual ~Events() = default;
  virtual bool scalar(Json value) = 0;
  virtual bool begin(Json::Kind kind) = 0;
  virtual bool end() = 0;
  virtual bool key(std::string& name) = 0;
  virtual bool parse_error(std::size_t position, const std::string& last_token, const nlohmann::json::exception&) = 0;

  bool null() { return scalar(Json{}); }
  bool boolean(bool value) { return scalar(Json::make(value)); }
  bool number_integer(std::int64_t value) { return scalar(Json::make(value)); }
  bool number_unsigned(std::uint64_t value) {
    // Beyond int64 an integer is only a number.
    if (value > static_cast<std::uint64_t>(INT64_MAX)) return scalar(Json::make(static_cast<double>(value)));
    return scalar(Json::make(static_cast<std::int64_t>(value)));
  }
  bool number_float(double value, const std::string&) { return scalar(Json::make(value)); }
  bool string(std::string& value) { return scalar(Json::make(std::string_view(value))); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(std::size_t) { return begin(Json::Kind::object); }
  bool end_object() { return end(); }
  bool start_array(std::size_t) { return begin(Json::Kind::array); }
  bool end_array() { return end(); }
};

// An input iterator over a text that counts what the parser has read.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  std::size_t* count = nullptr;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    ++at;
    ++*count;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
  bool operator!=(const CountingIterator& other) const { return at != other.at; }
};

bool run(std::string_view text, Events& events, std::size_t& count) {
  const CountingIterator first{text.data(), &count};
  const CountingIterator last{text.data() + text.size(), &count};
  return nlohmann::json::sax_parse(first, last, &events, nlohmann::json::input_format_t::json, true, true);
}

// Builds the tree; the values on the path to the one being read are on a stack.
class TreeBuilder : public Events {
 public:
  TreeBuilder(JsonError& error, std::string_view text, const std::size_t& count)
      : error_(error), text_(text), count_(count) {}

  Json take() { return std::move(root_); }

  bool scalar(Json value) override {
    place(std::move(value));
    return true;
  }
  bool begin(Json::Kind kind) override {
    if (open_.size() == static_cast<std::size_t>(deepest_nesting)) {
      return refuse(fmt::format("nested deeper than {} levels", deepest_nesting), count_ - 1);
    }
    Json container;
    container.kind = kind;
    Json* placed = place(std::move(container));
    open_.push_back({placed, {}, {}});
    return true;
  }
  bool end() override {
    open_.pop_back();
    return true;
  }
  bool key(std::string& name) override {
    Open& object = open_.back();
    if (!object.names.insert(name).second) {
      error_.pointer = pointer_to(path(), name);
      const std::size_t quote = text_.rfind('"', count_ < 2 ? 0 : count_ - 2);
      return refuse("is given twice", quote == std::string_view::npos ? 0 : quote);
    }
    object.key = name;
    return true;
  }
  // `position` is the number of characters read, one more than there are at the end of the text.
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    const bool at_end = position > text_.size();
    const std::size_t at = at_end ? text_.size() : token_start(position == 0 ? 0 : position - 1);
    const std::size_t before = std::min(text_.find_last_not_of(" \t\r\n", at == 0 ? 0 : at - 1), text_.size());
    const char next = at < text_.size() ? text_[at] : '\0';
    if ((next == '}' || next == ']') && before < at && text_[before] == ',') {
      error_.hint = "remove the comma";
      return refuse("a comma before the closing bracket", before);
    }
    if (next == '\'') error_.hint = "strings and keys stand in double quotes";
    return refuse(readable(error.what()), at_end ? before : at);
  }

 private:
  struct Open {
    Json* value;
    std::string key;
    std::unordered_set<std::string> names;
  };

  // Start of the string, number or word whose last character is at `at`.
  std::size_t token_start(std::size_t at) const {
    const auto in_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '+' || c == '.';
    };
    if (at > 0 && text_[at] == '"') {
      const std::size_t open = text_.find_last_of("\"\n", at - 1);
      return open != std::string_view::npos && text_[open] == '"' ? open : at;
    }
    while (at > 0 && in_word(text_[at]) && in_word(text_[at - 1])) --at;
    return at;
  }

  // Children are reached through their parent's `items`, which grows only while no child is open.
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Open& parent = open_.back();
    if (parent.value->is(Json::Kind::object)) return &parent.value->add(parent.key, std::move(value));
    return &parent.value->items.emplace_back(std::move(value));
  }
  std::string path() const {
    std::string pointer;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      const Json& parent = *open_[i].value;
      pointer = parent.is(Json::Kind::object) ? pointer_to(pointer, open_[i].key)
                                              : pointer_to(pointer, parent.items.size() - 1);
    }
    return pointer;
  }
  bool refuse(std::string message, std::size_t offset) {
    error_.message = std::move(message);
    error_.offset = offset;
    return false;
  }

  JsonError& error_;
  std::string_view text_;
  const std::size_t& count_;
  Json root_;
  std::vector<Open> open_;
};

// Walks a well-formed text to the value of a pointer. The start of a value is the first character after the token
// before it that is neither white space, comma, colon nor comment.
class Locator : public Events {
 public:
  Locator(std::string_view text, const std::vector<std::string>& path, const std::size_t& count)
      : text_(text), path_(path), count_(count) {}

  std::size_t value_offset() const { return value_; }
  std::size_t key_offset() const { return key_; }

  bool scalar(Json value) override {
    const bool more = enter(false);
    // A number ends where the next character is no part of it: the parser has read one too many.
    const bool number = value.is(Json::Kind::integer) || value.is(Json::Kind::number);
    token_end_ = count_ - (number && count_ < text_.size() ? 1 : 0);
    return more;
  }
  bool begin(Json::Kind kind) override {
    const bool more = enter(true);
    levels_.push_back({kind == Json::Kind::array, 0, on_path_});
    token_end_ = count_;
    return more;
  }
  bool end() override {
    const bool was_on_path = levels_.back().on_path;
    levels_.pop_back();
    token_end_ = count_;
    // Leaving the deepest container on the path: it lacks the member that is sought.
    return !was_on_path;
  }
  bool key(std::string& name) override {
    key_start_ = skip();
    name_ = name;
    token_end_ = count_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  struct Level {
    bool array;
    std::size_t next;  // index of the next item
    bool on_path;      // the container lies on the path
  };

  // A value begins; false when it is the one that is sought.
  bool enter(bool container) {
    if (levels_.empty()) {
      on_path_ = true;
      value_ = key_ = skip();
      return !path_.empty();
    }
    Level& parent = levels_.back();
    const std::size_t depth = levels_.size() - 1;
    const std::string name = parent.array ? std::to_string(parent.next++) : name_;
    on_path_ = parent.on_path && depth < path_.size() && path_[depth] == name;
    if (!on_path_) return true;
    value_ = skip();
    key_ = parent.array ? value_ : key_start_;
    return container && depth + 1 < path_.size();
  }
  std::size_t skip() const {
    std::size_t at = token_end_;
    while (at < text_.size()) {
      const std::string_view rest = text_.substr(at);
      if (rest.starts_with("//"))
        at = std::min(text_.find('\n', at), text_.size());
      else if (rest.starts_with("/*"))
        at = std::min(text_.find("*/", at), text_.size() - 2) + 2;
      else if (rest.starts_with("\xef\xbb\xbf"))
        at += 3;
      else if (std::string_view(" \t\r\n,:").find(rest.front()) != std::string_view::npos)
        ++at;
      else
        break;
    }
    return std::min(at, text_.size());
  }

  std::string_view text_;
  const std::vector<std::string>& path_;
  const std::size_t& count_;
  std::vector<Level> levels_;
  std::string name_;
  bool on_path_ = false;
  std::size_t token_end_ = 0, key_start_ = 0, value_ = 0, key_ = 0;
};

}  // namespace

std::optional<Json> parse_json(std::string_view text, JsonError& error) {
  if (text.size() > largest_document) {
    error = {0, {}, fmt::format("is larger than {} MiB", largest_document >> 20), {}};
    return std::nullopt;
  }
  if (const auto bad = find_bad_utf8(text)) {
    error = {*bad, {}, fmt::format("byte 0x{:02x} is not UTF-8", static_cast<unsigned char>(text[*bad])), {}};
    return std::nullopt;
  }
  std::size_t count = 0;
  TreeBuilder builder(error, text, count);
  if (!run(text, builder, count)) return std::nullopt;
  return builder.take();
}

std::size_t find_offset(std::string_view text, std::string_view pointer, bool at_key) {
  const std::vector<std::string> path = split_pointer(pointer).value_or(std::vector<std::string>{});
  std::size_t count = 0;
  Locator locator(text, path, count);
  run(text, locator, count);
  return at_key ? locator.key_offset() : locator.value_offset();
}

}  // namespace meshweave
