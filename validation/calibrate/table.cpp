#include "validation/calibrate/table.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "sim/base/error.h"
#include "sim/base/random.h"

namespace meshweave::calibrate {
namespace {

// Splits at commas outside double quotes.
std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

}  // namespace

const std::string& Row::text(const std::string& column) const {
  const auto cell = cells_.find(column);
  if (cell == cells_.end()) throw InputError(fmt::format("the table has no column \"{}\"", column));
  return cell->second;
}

double Row::number(const std::string& column) const { return std::strtod(text(column).c_str(), nullptr); }

std::uint64_t Row::hash(const std::vector<std::string>& columns) const {
  std::uint64_t h = 0;
  for (const std::string& column : columns) h = mix_bits(h ^ stream_key(text(column)));
  return h;
}

std::vector<Row> read_table(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw IoError(fmt::format("{}: cannot be opened", path));
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> header = split(line);
  std::vector<Row> rows;
  for (int number = 2; std::getline(file, line); ++number) {
    const std::vector<std::string> cells = split(line);
    if (cells.size() < header.size()) {
      throw InputError(fmt::format("{}:{}: {} cells (the header has {})", path, number, cells.size(), header.size()));
    }
    std::map<std::string, std::string> row;
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = cells[i];
    rows.emplace_back(std::move(row));
  }
  return rows;
}

}  // namespace meshweave::calibrate
