#include "sim/scenario/input_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <tuple>

namespace meshweave {
namespace {

struct Position {
  int line = 1;
  int column = 1;
  std::string_view source_line;
};

Position position_of(std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  Position position;
  std::size_t start = 0;
  for (std::size_t i = 0; i < offset; ++i) {
    if (text[i] != '\n') continue;
    ++position.line;
    start = i + 1;
  }
  position.column = static_cast<int>(offset - start) + 1;
  position.source_line = text.substr(start, text.find('\n', start) - start);
  if (position.source_line.ends_with('\r')) position.source_line.remove_suffix(1);
  return position;
}

Diagnostic make_diagnostic(const InputFile& file, std::size_t offset) {
  const Position position = position_of(file.text, offset);
  Diagnostic diagnostic;
  diagnostic.file = file.name;
  diagnostic.line = position.line;
  diagnostic.column = position.column;
  diagnostic.source_line = position.source_line;
  return diagnostic;
}

std::string option_text(const Override& setting) {
  return fmt::format("{} {}={}", setting.option, setting.pointer, setting.value);
}

bool lies_in(std::string_view pointer, const std::string& outer) {
  return pointer == outer || pointer.starts_with(outer + "/");
}

// The override that the value at `pointer` is due to: it lies in the override's, or the override made it on its way.
const Override* find_override(const InputFile& file, std::string_view pointer) {
  const auto at = std::find_if(file.overrides.rbegin(), file.overrides.rend(),
                               [&](const Override& setting) { return lies_in(pointer, setting.pointer); });
  if (at != file.overrides.rend()) return &*at;
  const auto made = std::find_if(file.made.rbegin(), file.made.rend(), [&](const Made& m) {
    return m.whole ? lies_in(pointer, m.pointer) : pointer == m.pointer;
  });
  return made == file.made.rend() ? nullptr : &file.overrides[made->setting];
}

// Text that can only be meant as JSON: what opens an object, a list or a string, or is a number alone.
bool is_meant_as_json(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return false;
  double number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + first, end, number);
  return std::string_view("{[\"").find(text[first]) != std::string_view::npos ||
         (parsed.ec == std::errc::result_out_of_range && parsed.ptr == end);
}

// The JSON that an override's text stands for: itself, or a string. Nothing, and the error, where it is neither.
std::optional<Json> value_of(const Override& setting, JsonError& error) {
  if (std::optional<Json> value = parse_json(setting.value, error)) return value;
  if (is_meant_as_json(setting.value)) return std::nullopt;
  return Json::make(std::string_view(setting.value));
}

std::optional<std::size_t> index_of(std::string_view key) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc{} || end != key.data() + key.size()) return std::nullopt;
  return index;
}

// Walks the way of one override to the place of its value, and makes what is missing on it.
class Walk {
 public:
  // `index` of the override, whose keys these are.
  Walk(InputFile& file, std::size_t index, const std::vector<std::string>& keys)
      : file_(file), index_(index), keys_(keys) {}

  // Null when a value on the way cannot have the member.
  Json* place() {
    Json* at = &file_.root;
    for (depth_ = 0; depth_ < keys_.size(); ++depth_) {
      const std::string& key = keys_[depth_];
      const std::string_view shorthand = shorthand_of(*at);
      if (!shorthand.empty()) {
        Json entry = Json::make_object();
        entry.add(shorthand, std::move(*at));
        *at = std::move(entry);
        file_.made.push_back({reached_, index_, false});
      }
      Json* member = at->is(Json::Kind::object)  ? member_of(*at, key)
                     : at->is(Json::Kind::array) ? item_of(*at, key)
                                                 : nullptr;
      if (member == nullptr) {
        wrong_ = at;
        return nullptr;
      }
      at = member;
      reached_ = pointer_to(reached_, key);
    }
    return at;
  }

  std::string message() const {
    const std::string name = reached_.empty() ? "the scenario" : reached_;
    if (!wrong_->is(Json::Kind::array)) return fmt::format("{} has no such member", name);
    if (!index_of(keys_[depth_])) return fmt::format("{} is a list, whose entries have numbers", name);
    if (wrong_->items.empty()) return fmt::format("{} is an empty list", name);
    return fmt::format("{} ends at entry {}", name, wrong_->items.size() - 1);
  }

  std::string hint() const {
    if (!wrong_->is(Json::Kind::array)) return {};
    return fmt::format("{0} '{1}/-=...' appends an entry, {0} '{1}=[...]' gives the whole list",
                       file_.overrides[index_].option, reached_);
  }

 private:
  // The key of the object that a plain value stands for: a degree, a kind, else the name of an entry.
  std::string_view shorthand_of(const Json& value) const {
    const std::string_view key = depth_ > 0 ? std::string_view(keys_[depth_ - 1]) : std::string_view();
    if (value.is(Json::Kind::integer) && (key == "cp" || key == "tsp")) return "degree";
    if (value.is(Json::Kind::string)) return key == "cost" ? "kind" : "base";
    return {};
  }
  // Behind a key that is missing comes a list where the next key is an entry's.
  Json missing() const {
    const bool list = depth_ + 1 < keys_.size() && (keys_[depth_ + 1] == "-" || index_of(keys_[depth_ + 1]));
    return list ? Json::make_array() : Json::make_object();
  }
  Json* member_of(Json& object, const std::string& key) {
    if (Json* member = object.find(key)) return member;
    file_.made.push_back({pointer_to(reached_, key), index_, true});
    return &object.add(key, missing());
  }
  Json* item_of(Json& array, const std::string& key) {
    if (key == "-") {
      file_.made.push_back({pointer_to(reached_, array.items.size()), index_, true});
      return &array.items.emplace_back(missing());
    }
    const std::optional<std::size_t> index = index_of(key);
    return index && *index < array.items.size() ? &array.items[*index] : nullptr;
  }

  InputFile& file_;
  std::size_t index_;
  const std::vector<std::string>& keys_;
  std::size_t depth_ = 0;
  std::string reached_;          // pointer of the value behind the first `depth_` keys
  const Json* wrong_ = nullptr;  // that value, where it cannot have the next key
};

}  // namespace

void Diagnostics::at_value(const InputFile& file, std::string_view pointer, std::string message, std::string hint) {
  add(file, pointer, false, std::move(message), std::move(hint));
}

void Diagnostics::at_key(const InputFile& file, std::string_view pointer, std::string message, std::string hint) {
  add(file, pointer, true, std::move(message), std::move(hint));
}

void Diagnostics::at_offset(const InputFile& file, JsonError error) {
  if (full()) return;
  Diagnostic diagnostic = make_diagnostic(file, error.offset);
  diagnostic.pointer = std::move(error.pointer);
  diagnostic.message = std::move(error.message);
  diagnostic.hint = std::move(error.hint);
  found_.push_back(std::move(diagnostic));
}

void Diagnostics::add(const InputFile& file, std::string_view pointer, bool at_key, std::string message,
                      std::string hint) {
  if (full()) return;
  Diagnostic diagnostic;
  if (const Override* setting = find_override(file, pointer)) {
    diagnostic.file = option_text(*setting);
  } else {
    diagnostic = make_diagnostic(file, find_offset(file.text, pointer, at_key));
  }
  diagnostic.pointer = pointer;
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  found_.push_back(std::move(diagnostic));
}

void Diagnostics::throw_if_any() {
  if (found_.empty()) return;
  // Files stay in the order in which their first mistake was found.
  std::vector<std::string> files;
  for (const Diagnostic& d : found_)
    if (std::find(files.begin(), files.end(), d.file) == files.end()) files.push_back(d.file);
  const auto place = [&](const Diagnostic& d) {
    return std::tuple(std::find(files.begin(), files.end(), d.file) - files.begin(), d.line, d.column);
  };
  std::stable_sort(found_.begin(), found_.end(),
                   [&](const Diagnostic& a, const Diagnostic& b) { return place(a) < place(b); });
  throw InputError(std::move(found_));
}

std::string read_text_file(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at is not read below
  if (std::filesystem::is_directory(path, ignored)) {
    throw IoError(fmt::format("cannot read {}: it is a folder, and a file is expected here", path));
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw IoError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  std::string text;
  std::string block(std::size_t{1} << 16, '\0');
  // One byte more than the limit is enough to know that a file is too large.
  while (stream && text.size() <= largest_document) {
    stream.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block, 0, static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad()) throw IoError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  return text;
}

bool parse_input(InputFile& file, Diagnostics& diagnostics) {
  JsonError error;
  std::optional<Json> root = parse_json(file.text, error);
  if (!root) {
    diagnostics.at_offset(file, std::move(error));
    return false;
  }
  if (!root->is(Json::Kind::object)) {
    diagnostics.at_value(file, "", fmt::format("expected an object (is {})", noun_of(root->kind)));
    return false;
  }
  file.root = std::move(*root);
  return true;
}

void apply_overrides(InputFile& file, std::vector<Override> overrides, Diagnostics& diagnostics) {
  file.overrides = std::move(overrides);
  for (std::size_t i = 0; i < file.overrides.size(); ++i) {
    const Override& setting = file.overrides[i];
    const auto keys = split_pointer(setting.pointer);
    if (!keys || keys->size() > static_cast<std::size_t>(deepest_nesting)) {
      diagnostics.at_value(file, setting.pointer, "is no JSON pointer (expected e.g. /batch/global)");
      continue;
    }
    JsonError error;
    std::optional<Json> value = value_of(setting, error);
    if (!value) {
      diagnostics.at_value(file, setting.pointer, fmt::format("{} is no JSON: {}", setting.value, error.message),
                           error.hint);
      continue;
    }
    Walk walk(file, i, *keys);
    if (Json* place = walk.place())
      *place = std::move(*value);
    else
      diagnostics.at_value(file, setting.pointer, walk.message(), walk.hint());
  }
}

}  // namespace meshweave
