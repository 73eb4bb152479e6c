#include "sim/trace/json_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "sim/base/error.h"

namespace meshweave {
namespace {

// Length of the well-formed UTF-8 sequence at the front of `text` (RFC 3629); 0 where there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return tail(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool overlong = lead == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = lead == 0xed && byte(1) > 0x9f;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool overlong = lead == 0xf0 && byte(1) < 0x90;
    const bool too_large = lead == 0xf4 && byte(1) > 0x8f;
    return tail(1) && tail(2) && tail(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
      ++i;
    } else if (c == '\n') {
      out += "\\n";
      ++i;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
      ++i;
    } else if (const std::size_t length = utf8_length(text.substr(i)); length > 0) {
      out.append(text.substr(i, length));
      i += length;
    } else {
      out += "\xef\xbf\xbd";
      ++i;
    }
  }
  out += '"';
}

void append_json_number(std::string& out, double value) {
  if (std::isfinite(value)) {
    fmt::format_to(std::back_inserter(out), "{}", value);
  } else {
    out += "null";
  }
}

void JsonText::open(char opening, char closing) {
  separate();
  out_ += opening;
  levels_.push_back({closing, true});
}

void JsonText::end() {
  ensure(!levels_.empty() && !after_key_, "JSON text: nothing to end");
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.empty) new_line();
  out_ += level.closing;
}

void JsonText::key(std::string_view name) {
  ensure(!levels_.empty() && levels_.back().closing == '}' && !after_key_, "JSON text: a key outside an object");
  separate();
  append_json_string(out_, name);
  out_ += indent_ > 0 ? ": " : ":";
  after_key_ = true;
}

void JsonText::string(std::string_view value) {
  separate();
  append_json_string(out_, value);
}

void JsonText::number(double value) {
  separate();
  append_json_number(out_, value);
}

void JsonText::integer(std::int64_t value) {
  separate();
  fmt::format_to(std::back_inserter(out_), "{}", value);
}

void JsonText::boolean(bool value) {
  separate();
  out_ += value ? "true" : "false";
}

void JsonText::null() {
  separate();
  out_ += "null";
}

void JsonText::raw(std::string_view json) {
  separate();
  out_ += json;
}

void JsonText::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) return;
  if (!levels_.back().empty) out_ += ',';
  levels_.back().empty = false;
  new_line();
}

void JsonText::new_line() {
  if (indent_ <= 0) return;
  out_ += '\n';
  out_.append(levels_.size() * static_cast<std::size_t>(indent_), ' ');
}

}  // namespace meshweave
