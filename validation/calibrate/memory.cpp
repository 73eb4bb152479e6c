#include <fmt/format.h>

#include <map>
#include <optional>

#include "sim/cost/kernel_cost.h"
#include "validation/calibrate/error_summary.h"
#include "validation/calibrate/fits.h"
#include "validation/calibrate/table.h"

namespace meshweave::calibrate {
namespace {

constexpr double element_bytes = 2;

struct Sample {
  std::string label;
  OpKind kind = OpKind::norm;
  double bytes = 0;
  double seconds = 0;
  bool judges = false;
};

// One row holds a forward (x in, y out) and a backward (dy and x in, dx out).
void add_norms(const Row& row, std::vector<Sample>& samples) {
  const double tensor = element_bytes * row.number("N") * row.number("C");
  const bool judge = judges(row.hash({"norm_name"}));
  samples.push_back({"norm", OpKind::norm, 2 * tensor, row.number("fwd_time_ms") * 1e-3, judge});
  samples.push_back({"norm backward", OpKind::norm_backward, 3 * tensor, row.number("bwd_time_ms") * 1e-3, judge});
}

// The traffic of one of the layer's small kernels; nothing for matmuls and embeddings.
std::optional<Sample> layer_sample(const Row& row) {
  const std::string& op = row.text("op");
  const double token_bytes = element_bytes * row.number("tokens");
  const double hidden = row.number("n_embd");
  Sample s{op, OpKind::activation, 0, row.number("time_ms") * 1e-3, judges(row.hash({"model", "op", "tokens", "tp"}))};
  if (op == "add") {
    s.kind = OpKind::residual_add;
    s.bytes = 3 * token_bytes * hidden;
  } else if (op == "mlp_act") {
    const bool gated = row.text("model").find("phi") == std::string::npos;
    s.bytes = (gated ? 3 : 2) * token_bytes * row.number("ffn") / row.number("tp");
  } else if (op == "attn_rope") {
    s.kind = OpKind::rope;
    const double heads = (row.number("n_head") + row.number("n_kv_head")) / row.number("tp");
    s.bytes = 2 * token_bytes * heads * hidden / row.number("n_head");
  } else {
    return std::nullopt;
  }
  return s;
}

std::vector<Sample> read_samples(const std::string& path, const std::string& backend) {
  std::vector<Sample> samples;
  for (const Row& row : read_table(path)) {
    if (row.has("norm_type")) {
      if (row.text("backend") == backend) add_norms(row, samples);
    } else if (const auto sample = layer_sample(row); sample && sample->seconds > 0) {
      samples.push_back(*sample);
    }
  }
  return samples;
}

}  // namespace

void judge_memory(const DeviceModel& device, const FitRequest& request, const std::string& key) {
  std::map<std::string, ErrorSummary> ideal, errors;
  for (const Sample& s : read_samples(request.tables.front(), key)) {
    const double at_peak = s.bytes / device.memory_bytes_per_s;
    if (s.judges) {
      const double predicted = device.kernel_floor_s + at_peak / bandwidth_share(device.memory, s.kind);
      errors[s.label].add(predicted, s.seconds);
    } else if (s.seconds > 2 * device.kernel_floor_s) {
      ideal[s.label].add(at_peak, s.seconds - device.kernel_floor_s);
    }
  }
  for (const auto& [label, summary] : ideal) fmt::print("{}: median share of the peak {:.3f}\n", label, summary.bias());
  for (const auto& [label, summary] : errors) fmt::print("{}: {}\n", label, summary.text());
}

}  // namespace meshweave::calibrate
