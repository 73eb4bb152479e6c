#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/random.h"
#include "sim/cost/kernel_cost.h"
#include "validation/calibrate/error_summary.h"
#include "validation/calibrate/fits.h"
#include "validation/calibrate/minimize.h"
#include "validation/calibrate/table.h"

namespace meshweave::calibrate {
namespace {

struct Sample {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  double seconds = 0;
};

std::int64_t integer(const Row& row, const std::string& column) {
  return static_cast<std::int64_t>(row.number(column));
}

// Rows of m, n, k, time_us; of B, M, N, K, us; or of m, n, k, batch, tflops.
Sample sample_of(const Row& row) {
  if (row.has("us")) {
    return {integer(row, "M"), integer(row, "N"), integer(row, "K"), integer(row, "B"), row.number("us") * 1e-6};
  }
  Sample s{integer(row, "m"), integer(row, "n"), integer(row, "k"), 1, 0};
  if (row.has("time_us")) {
    s.seconds = row.number("time_us") * 1e-6;
  } else {
    s.batch = integer(row, "batch");
    s.seconds = 2.0 * static_cast<double>(s.m * s.n * s.k * s.batch) / (row.number("tflops") * 1e12);
  }
  return s;
}

// Whether the row judges: by a hash of its shape.
bool judges_by_shape(const Sample& s) {
  std::uint64_t h = 0;
  for (const std::int64_t part : {s.m, s.n, s.k, s.batch}) h = mix_bits(h ^ static_cast<std::uint64_t>(part));
  return judges(h);
}

double predict(const DeviceModel& device, const Sample& s) {
  constexpr double element_bytes = 2;
  const double bytes = element_bytes * static_cast<double>(s.batch * (s.m * s.k + s.k * s.n + s.m * s.n));
  return device.kernel_floor_s + matmul_cost(device, device.peak_flops_per_s, bytes, s.m, s.n, s.k, s.batch).seconds;
}

double mean_log_error(const DeviceModel& device, const std::vector<Sample>& samples) {
  double sum = 0;
  for (const Sample& s : samples) sum += std::abs(std::log(predict(device, s) / s.seconds));
  return sum / static_cast<double>(samples.size());
}

// Tiles of one area share an efficiency. The areas of the model's tiles, ascending.
std::vector<int> areas_of(const MatmulModel& model) {
  std::vector<int> areas;
  for (const MatmulTile& tile : model.tiles) areas.push_back(tile.m * tile.n);
  std::sort(areas.begin(), areas.end());
  areas.erase(std::unique(areas.begin(), areas.end()), areas.end());
  return areas;
}

std::size_t area_index(const std::vector<int>& areas, const MatmulTile& tile) {
  return static_cast<std::size_t>(std::lower_bound(areas.begin(), areas.end(), tile.m * tile.n) - areas.begin());
}

// The efficiencies by area, then the scalars; all positive, as the minimiser wants them.
Parameters parameters_of(const DeviceModel& device) {
  const std::vector<int> areas = areas_of(device.matmul);
  Parameters p(areas.size());
  for (const MatmulTile& tile : device.matmul.tiles) p[area_index(areas, tile)] = tile.efficiency;
  p.push_back(device.kernel_floor_s);
  p.push_back(device.memory.streaming);
  p.push_back(device.matmul.k_overhead);
  p.push_back(device.matmul.split_k_overhead_s);
  p.push_back(std::max(0.01, device.matmul.wave_smoothing));
  p.push_back(std::max(0.005, device.matmul.large_loss));
  p.push_back(std::max(1e11, device.matmul.large_flops));
  return p;
}

DeviceModel with_parameters(DeviceModel device, const Parameters& p) {
  const std::vector<int> areas = areas_of(device.matmul);
  for (MatmulTile& tile : device.matmul.tiles) tile.efficiency = std::min(1.0, p[area_index(areas, tile)]);
  const std::size_t scalars = areas.size();
  device.kernel_floor_s = p[scalars];
  device.memory.streaming = std::min(1.0, p[scalars + 1]);
  device.matmul.k_overhead = p[scalars + 2];
  device.matmul.split_k_overhead_s = p[scalars + 3];
  device.matmul.wave_smoothing = std::min(1.0, p[scalars + 4]);
  device.matmul.large_loss = p[scalars + 5];
  device.matmul.large_flops = p[scalars + 6];
  return device;
}

void print_constants(const DeviceModel& device) {
  for (const MatmulTile& tile : device.matmul.tiles) {
    fmt::print("  tile {}×{} efficiency {:.3f}\n", tile.m, tile.n, tile.efficiency);
  }
  fmt::print("  kernel_floor {:.2f} us, streaming {:.3f}, k_overhead {:.0f}, split_k_overhead {:.2f} us\n",
             device.kernel_floor_s * 1e6, device.memory.streaming, device.matmul.k_overhead,
             device.matmul.split_k_overhead_s * 1e6);
  fmt::print("  wave_smoothing {:.3f}, large_loss {:.4f}, large_flops {:.3g}\n", device.matmul.wave_smoothing,
             device.matmul.large_loss, device.matmul.large_flops);
}

ErrorSummary summarize(const DeviceModel& device, const std::vector<Sample>& samples, std::int64_t least_m,
                       std::int64_t most_m, std::int64_t least_nk = 0) {
  ErrorSummary errors;
  for (const Sample& s : samples) {
    if (s.m < least_m || s.m > most_m || std::min(s.n, s.k) < least_nk) continue;
    errors.add(predict(device, s), s.seconds);
  }
  return errors;
}

void print_errors(const DeviceModel& device, const std::vector<Sample>& judging) {
  constexpr std::int64_t any = 1 << 30;
  fmt::print("{}, all rows that judge: {}\n", device.name, summarize(device, judging, 1, any).text());
  fmt::print("  m ≤ 64:              {}\n", summarize(device, judging, 1, 64).text());
  fmt::print("  64 < m ≤ 512:        {}\n", summarize(device, judging, 65, 512).text());
  fmt::print("  512 < m ≤ 2048:      {}\n", summarize(device, judging, 513, 2048).text());
  fmt::print("  2048 < m ≤ 8192:     {}\n", summarize(device, judging, 2049, 8192).text());
  fmt::print("  m > 8192:            {}\n", summarize(device, judging, 8193, any).text());
  fmt::print("  m ≥ 1024, n,k ≥ 1024: {}\n", summarize(device, judging, 1024, any, 1024).text());
}

}  // namespace

void calibrate_matmul(DeviceModel device, const FitRequest& request, const std::string& key) {
  std::vector<Sample> fitting, judging;
  for (const std::string& table : request.tables) {
    for (const Row& row : read_table(table)) {
      if (row.has("device") && row.text("device").find(key) != 0) continue;
      const Sample sample = sample_of(row);
      if (sample.m > 0) (judges_by_shape(sample) ? judging : fitting).push_back(sample);
    }
  }
  if (request.fit) {
    constexpr int evaluations = 6000;
    const DeviceModel start = device;
    const auto objective = [&](const Parameters& p) { return mean_log_error(with_parameters(start, p), fitting); };
    device = with_parameters(device, minimize(objective, parameters_of(device), evaluations));
    fmt::print("fitted on {} rows:\n", fitting.size());
  }
  print_constants(device);
  print_errors(device, judging);
}

}  // namespace meshweave::calibrate
