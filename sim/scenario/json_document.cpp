#include "sim/scenario/json_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/json_text.h"

namespace meshweave {
namespace {

constexpr std::size_t widest_line = 100;

void append_scalar(std::string& out, const Json& value) {
  switch (value.kind) {
    case Json::Kind::null: out += "null"; break;
    case Json::Kind::boolean: out += value.boolean ? "true" : "false"; break;
    case Json::Kind::integer: out += fmt::format("{}", value.integer); break;
    case Json::Kind::number: out += fmt::format("{}", value.number); break;
    case Json::Kind::string: append_json_string(out, value.text); break;
    case Json::Kind::array:
    case Json::Kind::object: bug("a container is not a scalar");
  }
}

bool is_container(const Json& value) { return value.is(Json::Kind::array) || value.is(Json::Kind::object); }

void append_on_one_line(std::string& out, const Json& value) {
  if (!is_container(value)) return append_scalar(out, value);
  const bool object = value.is(Json::Kind::object);
  out += object ? "{" : "[";
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    out += i > 0 ? ", " : object ? " " : "";
    if (object) {
      append_json_string(out, value.keys[i]);
      out += ": ";
    }
    append_on_one_line(out, value.items[i]);
  }
  out += object ? (value.items.empty() ? "}" : " }") : "]";
}

void append(std::string& out, const Json& value, std::size_t indent, std::size_t column) {
  std::string line;
  append_on_one_line(line, value);
  // The outermost object is always spread.
  if (!is_container(value) || value.items.empty() || (column + line.size() <= widest_line && indent > 0)) {
    out += line;
    return;
  }
  const bool object = value.is(Json::Kind::object);
  const std::string margin(indent + 2, ' ');
  out += object ? "{" : "[";
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    out += i > 0 ? ",\n" : "\n";
    const std::size_t start = out.size();
    out += margin;
    if (object) {
      append_json_string(out, value.keys[i]);
      out += ": ";
    }
    append(out, value.items[i], indent + 2, out.size() - start);
  }
  out += "\n" + std::string(indent, ' ') + (object ? "}" : "]");
}

}  // namespace

Json Json::with_kind(Kind kind) {
  Json value;
  value.kind = kind;
  return value;
}

Json Json::make(bool value) {
  Json json = with_kind(Kind::boolean);
  json.boolean = value;
  return json;
}

Json Json::make(std::int64_t value) {
  Json json = with_kind(Kind::integer);
  json.integer = value;
  json.number = static_cast<double>(value);
  return json;
}

Json Json::make(double value) {
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (std::abs(value) <= exact && value == std::floor(value)) return make(static_cast<std::int64_t>(value));
  Json json = with_kind(Kind::number);
  json.number = value;
  return json;
}

Json Json::make(std::string_view value) {
  Json json = with_kind(Kind::string);
  json.text = value;
  return json;
}

const Json* Json::find(std::string_view key) const {
  const auto at = std::find(keys.begin(), keys.end(), key);
  return at == keys.end() ? nullptr : &items[static_cast<std::size_t>(at - keys.begin())];
}

Json* Json::find(std::string_view key) { return const_cast<Json*>(std::as_const(*this).find(key)); }

Json& Json::add(std::string_view key, Json value) {
  keys.emplace_back(key);
  return items.emplace_back(std::move(value));
}

std::string_view noun_of(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::null: return "null";
    case Json::Kind::boolean: return "true or false";
    case Json::Kind::integer: return "an integer";
    case Json::Kind::number: return "a number";
    case Json::Kind::string: return "a string";
    case Json::Kind::array: return "an array";
    case Json::Kind::object: return "an object";
  }
  bug("unknown kind of JSON value");
}

std::string format_json(const Json& value) {
  std::string out;
  append(out, value, 0, 0);
  return out;
}

std::string format_json_line(const Json& value) {
  std::string out;
  append_on_one_line(out, value);
  return out;
}

std::string pointer_to(std::string_view parent, std::string_view key) {
  std::string pointer(parent);
  pointer += '/';
  for (const char c : key) {
    if (c == '~')
      pointer += "~0";
    else if (c == '/')
      pointer += "~1";
    else
      pointer += c;
  }
  return pointer;
}

std::string pointer_to(std::string_view parent, std::size_t index) { return fmt::format("{}/{}", parent, index); }

std::optional<std::vector<std::string>> split_pointer(std::string_view pointer) {
  std::vector<std::string> keys;
  if (pointer.empty() || pointer.front() != '/') return std::nullopt;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      keys.emplace_back();
    } else if (pointer[i] == '~') {
      if (++i == pointer.size() || (pointer[i] != '0' && pointer[i] != '1')) return std::nullopt;
      keys.back() += pointer[i] == '0' ? '~' : '/';
    } else {
      keys.back() += pointer[i];
    }
  }
  return keys;
}

}  // namespace meshweave
