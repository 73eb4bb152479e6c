#include "validation/calibrate/error_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace meshweave::calibrate {
namespace {

double percentile_of(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto nth = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + nth, values.end());
  return values[static_cast<std::size_t>(nth)];
}

}  // namespace

void ErrorSummary::add(double predicted, double measured) {
  errors_.push_back(std::abs(predicted - measured) / measured);
  ratios_.push_back(predicted / measured);
}

double ErrorSummary::percentile(double share) const { return percentile_of(errors_, share); }

double ErrorSummary::mean() const {
  return errors_.empty() ? 0 : std::accumulate(errors_.begin(), errors_.end(), 0.0) / static_cast<double>(count());
}

double ErrorSummary::bias() const { return percentile_of(ratios_, 0.5); }

std::string ErrorSummary::text() const {
  return fmt::format("{} rows: median {:.1f} %, mean {:.1f} %, 90 % within {:.1f} %, predicted/measured {:.2f}",
                     count(), 100 * median(), 100 * mean(), 100 * percentile(0.9), bias());
}

}  // namespace meshweave::calibrate
