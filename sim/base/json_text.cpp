#include "sim/base/json_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "sim/base/error.h"
#include "sim/base/text.h"

namespace meshweave {

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
      ++i;
    } else if (c == '\n' || c == '\t' || c == '\r') {
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
      ++i;
    } else if (c >= ' ' && c <= '~') {
      out += c;
      ++i;
    } else if (const std::string_view sequence = text.substr(i, utf8_length(text.substr(i))); !sequence.empty()) {
      // The code point of a control character is its last byte, in C0 as in C1.
      if (is_control(sequence)) {
        fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(sequence.back()));
      } else {
        out += sequence;
      }
      i += sequence.size();
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
