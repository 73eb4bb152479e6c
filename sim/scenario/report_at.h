// Where a check reports what does not fit: a file and its diagnostics.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/scenario/input_file.h"

namespace meshweave {

class ReportAt {
 public:
  ReportAt(const InputFile& file, Diagnostics& diagnostics) : file_(file), diagnostics_(diagnostics) {}

  void operator()(std::string_view pointer, std::string message, std::string hint = {}) const {
    diagnostics_.at_value(file_, pointer, std::move(message), std::move(hint));
  }
  void at_key(std::string_view pointer, std::string message, std::string hint = {}) const {
    diagnostics_.at_key(file_, pointer, std::move(message), std::move(hint));
  }
  std::size_t count() const { return diagnostics_.count(); }

 private:
  const InputFile& file_;
  Diagnostics& diagnostics_;
};

// "1, 2, 4, 8": the divisors of `n`, the first dozen.
std::string divisors(std::int64_t n);

}  // namespace meshweave
