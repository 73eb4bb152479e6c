// Strategies over a range of sequence lengths or micro-batch sizes: one metric as a table, a chart, and the places
// where two strategies change sides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/report/svg_plot.h"
#include "sim/search/analysis.h"

namespace meshweave {

enum class SweepMetric : std::uint8_t {
  time,           // step time per token of the step
  memory,         // the peak
  bytes,          // received per device and token of the step
  forward_bytes,  // received per device in the forward of a layer and micro-batch
};
std::string_view name_of(SweepMetric);
std::optional<SweepMetric> sweep_metric(std::string_view name);
// In base units; none where the strategy is not possible.
std::optional<double> value_of(SweepMetric metric, const StrategyRow& row);

struct StrategySweep {
  bool of_micro = false;                       // of micro-batch sizes, not of sequence lengths
  std::vector<std::int64_t> values;            // ascending
  std::vector<std::vector<StrategyRow>> rows;  // by value; the same strategies in the same order
};

// Where the metric of `rising`, the lower one before, exceeds that of `falling`. Interpolated between the two nearest
// values on logarithmic axes; a value where both are equal is the place itself.
struct Crossover {
  std::size_t rising = 0, falling = 0;  // indices of strategies
  double at = 0;                        // swept value
  double metric = 0;
};
// By place, then by strategy. Strategies that are equal at one end only do not cross.
std::vector<Crossover> crossovers(const StrategySweep& sweep, SweepMetric metric);

std::string sweep_text(const StrategySweep& sweep, SweepMetric metric);
// Writes "sweep" into the object that is open.
void write_sweep(JsonText& out, const StrategySweep& sweep, SweepMetric metric);
Plot sweep_plot(const Scenario& scenario, int devices, const StrategySweep& sweep, SweepMetric metric);

}  // namespace meshweave
