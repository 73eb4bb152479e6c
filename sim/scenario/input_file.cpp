#include "sim/scenario/input_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
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

std::string option_text(const Override& setting) { return fmt::format("--set {}={}", setting.pointer, setting.value); }

// The override whose value `pointer` lies in.
const Override* find_override(const InputFile& file, std::string_view pointer) {
  const auto covers = [&](const Override& setting) {
    return pointer == setting.pointer || pointer.starts_with(setting.pointer + "/");
  };
  const auto at = std::find_if(file.overrides.rbegin(), file.overrides.rend(), covers);
  return at == file.overrides.rend() ? nullptr : &*at;
}

// The JSON that an override's text stands for: itself, or a string.
Json value_of(const Override& setting) {
  JsonError ignored;
  if (std::optional<Json> value = parse_json(setting.value, ignored)) return std::move(*value);
  return Json::make(std::string_view(setting.value));
}

// The place that `keys` lead to, made where missing; null when a value on the way cannot have members. `reached` is
// the pointer of the last value on the way.
Json* walk(Json& root, const std::vector<std::string>& keys, std::string& reached) {
  Json* at = &root;
  for (const std::string& key : keys) {
    if (at->is(Json::Kind::string)) {
      Json entry = Json::make_object();
      entry.add("base", std::move(*at));
      *at = std::move(entry);
    }
    if (at->is(Json::Kind::object)) {
      Json* member = at->find(key);
      at = member ? member : &at->add(key, Json::make_object());
    } else if (at->is(Json::Kind::array)) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
      if (error != std::errc{} || end != key.data() + key.size() || index >= at->items.size()) return nullptr;
      at = &at->items[index];
    } else {
      return nullptr;
    }
    reached = pointer_to(reached, key);
  }
  return at;
}

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
  for (const Override& setting : file.overrides) {
    const auto keys = split_pointer(setting.pointer);
    if (!keys || keys->size() > static_cast<std::size_t>(deepest_nesting)) {
      diagnostics.at_value(file, setting.pointer, "is no JSON pointer (expected e.g. /batch/global)");
      continue;
    }
    std::string reached;
    Json* place = walk(file.root, *keys, reached);
    if (place) *place = value_of(setting);
    else diagnostics.at_value(file, setting.pointer, fmt::format("{} has no such member", reached.empty() ? "the scenario" : reached));
  }
}

}  // namespace meshweave
