// A measured table: a CSV file with a header line, read by column name.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace meshweave::calibrate {

class Row {
 public:
  explicit Row(std::map<std::string, std::string> cells) : cells_(std::move(cells)) {}
  bool has(const std::string& column) const { return cells_.contains(column); }
  const std::string& text(const std::string& column) const;
  double number(const std::string& column) const;
  // A stable hash of the cells of these columns: decides which rows judge and which fit.
  std::uint64_t hash(const std::vector<std::string>& columns) const;

 private:
  std::map<std::string, std::string> cells_;
};

// Throws IoError without the file, InputError for a row of the wrong length.
std::vector<Row> read_table(const std::string& path);

// One third of all rows, chosen by hash, judges; the others fit.
constexpr bool judges(std::uint64_t hash) { return hash % 3 == 0; }

}  // namespace meshweave::calibrate
