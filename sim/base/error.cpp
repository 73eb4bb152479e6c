#include "sim/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "sim/base/text.h"

namespace meshweave {
namespace {

constexpr std::size_t widest_source_line = 100;

bool is_continuation_byte(char c) { return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u; }

// A piece of a source line as it is shown: tabs stay, since they indent.
std::string shown(std::string_view piece) {
  std::string out;
  for (std::size_t tab; (tab = piece.find('\t')) != piece.npos; piece.remove_prefix(tab + 1)) {
    out += escaped(piece.substr(0, tab)) + '\t';
  }
  return out + escaped(piece);
}

// The source line and the caret below `column`; long lines are cut on both sides of it.
std::string excerpt(std::string_view line, int column) {
  std::size_t at = std::min(static_cast<std::size_t>(std::max(column, 1) - 1), line.size());
  bool cut_left = false;
  bool cut_right = false;
  if (line.size() > widest_source_line) {
    std::size_t first = at > widest_source_line / 2 ? at - widest_source_line / 2 : 0;
    while (first > 0 && is_continuation_byte(line[first])) --first;
    std::size_t last = std::min(line.size(), first + widest_source_line);
    while (last < line.size() && is_continuation_byte(line[last])) ++last;
    cut_left = first > 0;
    cut_right = last < line.size();
    line = line.substr(first, last - first);
    at -= first;
  }
  std::string padding;
  for (const char c : shown(line.substr(0, at))) {
    if (c == '\t')
      padding += '\t';
    else if (!is_continuation_byte(c))
      padding += ' ';
  }
  return fmt::format("    {}{}{}\n    {}{}^\n", cut_left ? "..." : "", shown(line), cut_right ? "..." : "",
                     cut_left ? "   " : "", padding);
}

std::string join(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& d : diagnostics) text += format(d);
  return text;
}

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours cost 1 each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string format(const Diagnostic& d) {
  std::string text = escaped(d.file);
  if (!d.file.empty() && d.line > 0) text += fmt::format(":{}:{}", d.line, d.column);
  if (!text.empty()) text += ": ";
  text += "error: ";
  if (!d.pointer.empty()) text += escaped(d.pointer) + ": ";
  text += escaped(d.message) + "\n";
  if (d.line > 0 && !d.source_line.empty()) text += excerpt(d.source_line, d.column);
  if (!d.hint.empty()) text += fmt::format("  hint: {}\n", escaped(d.hint));
  return text;
}

InputError::InputError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(join(diagnostics)), diagnostics_(std::move(diagnostics)) {}

InputError::InputError(std::string message)
    : InputError(std::vector<Diagnostic>{Diagnostic{{}, 0, 0, {}, std::move(message), {}, {}}}) {}

void bug(std::string_view what, const char* file, int line) {
  const std::string text = fmt::format("this is a bug in meshweave: {} ({}:{})\n", what, file, line);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  std::_Exit(70);
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr std::size_t farthest = 3;
  std::string nearest;
  std::size_t least = farthest + 1;
  // Between equally near names the first letter decides: "dpp" is "dp", not "pp".
  const auto same_start = [&](const std::string& other) { return !other.empty() && other.front() == name.front(); };
  for (const std::string& candidate : candidates) {
    const std::size_t shorter = std::min(name.size(), candidate.size());
    if (std::max(name.size(), candidate.size()) - shorter > farthest) continue;
    const std::size_t distance = edit_distance(name, candidate);
    const bool nearer = distance < least || (distance == least && same_start(candidate) && !same_start(nearest));
    if (nearer && 2 * distance < name.size() + 1) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace meshweave
