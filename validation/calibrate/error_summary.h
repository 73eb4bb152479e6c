// How far predictions lie from measurements: |predicted − measured| / measured over many rows.
#pragma once

#include <string>
#include <vector>

namespace meshweave::calibrate {

class ErrorSummary {
 public:
  void add(double predicted, double measured);
  std::size_t count() const { return errors_.size(); }
  double median() const { return percentile(0.5); }
  double percentile(double share) const;
  double mean() const;
  double bias() const;  // median of predicted / measured
  // "1,234 rows: median 5.1 %, mean 7.0 %, 90 % within 15.2 %, predicted/measured 1.01"
  std::string text() const;

 private:
  std::vector<double> errors_;
  std::vector<double> ratios_;
};

}  // namespace meshweave::calibrate
