#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/cost/kernel_cost.h"
#include "validation/calibrate/error_summary.h"
#include "validation/calibrate/fits.h"
#include "validation/calibrate/minimize.h"
#include "validation/calibrate/table.h"

namespace meshweave::calibrate {
namespace {

struct Sample {
  AttentionShape shape;
  double bytes = 0;
  double kv_bytes = 0;
  double seconds = 0;
};

// What the table's calls do beside the kernel: launching and planning, and writing keys and values to a cache.
struct TableOverheads {
  double call_s = 0;
  double kv_passes = 0;
};

double predict(const DeviceModel& device, const TableOverheads& overheads, const Sample& s) {
  const double cache_s = overheads.kv_passes * s.kv_bytes / (device.memory_bytes_per_s * device.memory.streaming);
  return device.kernel_floor_s + overheads.call_s + cache_s + attention_seconds(device, s.bytes, s.shape);
}

struct Model {
  DeviceModel device;
  TableOverheads overheads;
};

double& efficiency_of(AttentionModel::Efficiency& e, bool backward) { return backward ? e.backward : e.forward; }

Parameters parameters_of(DeviceModel device, bool backward) {
  Parameters p;
  for (auto& e : device.attention.efficiency) p.push_back(efficiency_of(e, backward));
  p.push_back(backward ? device.attention.backward_overhead_keys : device.attention.forward_overhead_keys);
  p.push_back(std::max(0.01, device.attention.tail));
  p.push_back(std::max(1.0, device.attention.causal_extra_keys));
  p.push_back(1e-6);
  p.push_back(1.0);
  return p;
}

// `fit_overheads` is false where the table times the kernel alone; then tail and causal keys stay as they are too.
Model with_parameters(DeviceModel device, const Parameters& p, bool backward, bool fit_overheads) {
  std::size_t i = 0;
  for (auto& e : device.attention.efficiency) efficiency_of(e, backward) = std::min(1.0, p[i++]);
  (backward ? device.attention.backward_overhead_keys : device.attention.forward_overhead_keys) = p[i++];
  Model model{std::move(device), {}};
  if (!fit_overheads) return model;
  model.device.attention.tail = p[i++];
  model.device.attention.causal_extra_keys = p[i++];
  model.overheads.call_s = p[i++];
  model.overheads.kv_passes = p[i++];
  return model;
}

Sample sample_of(double batch, double heads, double kv_heads, double length, double head_dim, bool causal,
                 bool backward) {
  constexpr double element_bytes = 2;
  Sample s;
  s.shape = {batch * heads, length, length, head_dim, causal, backward};
  s.kv_bytes = element_bytes * 2 * batch * kv_heads * length * head_dim;
  s.bytes = element_bytes * 2 * batch * heads * length * head_dim + s.kv_bytes;
  if (backward) s.bytes *= 2;
  return s;
}

struct Samples {
  std::vector<Sample> fitting, judging;
};

void print_constants(const Model& model) {
  const AttentionModel& a = model.device.attention;
  for (const auto& e : a.efficiency) {
    fmt::print("  head_dim {}: forward {:.3f}, backward {:.3f}\n", e.head_dim, e.forward, e.backward);
  }
  fmt::print("  overhead keys {:.0f} forward, {:.0f} backward, tail {:.3f}, causal_extra_keys {:.0f}\n",
             a.forward_overhead_keys, a.backward_overhead_keys, a.tail, a.causal_extra_keys);
  fmt::print("  of the table: {:.2f} us per call, {:.2f} passes over keys and values\n", model.overheads.call_s * 1e6,
             model.overheads.kv_passes);
}

void print_errors(const Model& model, const std::vector<Sample>& judging) {
  ErrorSummary all, long_enough;
  for (const Sample& s : judging) {
    const double predicted = predict(model.device, model.overheads, s);
    all.add(predicted, s.seconds);
    if (s.seconds > 100e-6) long_enough.add(predicted, s.seconds);
  }
  fmt::print("{}, all rows that judge: {}\n", model.device.name, all.text());
  fmt::print("  above 100 us:        {}\n", long_enough.text());
}

Model fit(const DeviceModel& start, const std::vector<Sample>& fitting, bool backward, bool fit_overheads) {
  constexpr int evaluations = 6000;
  const auto objective = [&](const Parameters& p) {
    const Model model = with_parameters(start, p, backward, fit_overheads);
    double sum = 0;
    for (const Sample& s : fitting) {
      sum += std::abs(std::log(predict(model.device, model.overheads, s) / s.seconds));
    }
    return sum / static_cast<double>(fitting.size());
  };
  return with_parameters(start, minimize(objective, parameters_of(start, backward), evaluations), backward,
                         fit_overheads);
}

}  // namespace

void calibrate_attention(DeviceModel device, const FitRequest& request, const std::string& device_key) {
  Samples samples;
  for (const Row& row : read_table(request.tables.front())) {
    if (row.text("device") != device_key || row.text("stack").find("TRT") != std::string::npos) continue;
    Sample s = sample_of(row.number("batch"), row.number("heads"), row.number("kv_heads"), row.number("seqlen"),
                         row.number("head_dim"), row.text("mode") == "causal_fwd", false);
    s.seconds = row.number("time_us") * 1e-6;
    const bool judge = judges(row.hash({"mode", "batch", "seqlen", "heads", "kv_heads", "head_dim"}));
    (judge ? samples.judging : samples.fitting).push_back(s);
  }
  // The table's own overheads are no constants of the device, so that a judgement needs their fit too.
  const Model model = fit(device, samples.fitting, false, true);
  if (request.fit) print_constants(model);
  print_errors(request.fit ? model : Model{device, model.overheads}, samples.judging);
}

void calibrate_attention_backward(DeviceModel device, const FitRequest& request) {
  std::vector<Sample> forward, backward;
  for (const Row& row : read_table(request.tables.front())) {
    constexpr double bf16_limit = 0.75;  // faster rows are FP8
    if (row.number("fwd_tflops") * 1e12 > bf16_limit * device.peak_flops_per_s) continue;
    const double length = row.number("q_seqlen");
    if (row.text("config_name") == "gpt_oss") continue;  // sliding window
    Sample s = sample_of(row.number("batch_size"), row.number("num_q_heads"), row.number("num_kv_heads"), length,
                         row.number("head_dim_qk"), row.text("attn_mask") != "no_mask", false);
    s.seconds = row.number("fwd_time_ms") * 1e-3;
    forward.push_back(s);
    s.shape.backward = true;
    s.seconds = row.number("bwd_time_ms") * 1e-3;
    backward.push_back(s);
  }
  fmt::print("forward\n");
  print_errors({device, {}}, forward);
  Model model{device, {}};
  if (request.fit) {
    model = fit(device, backward, true, false);
    print_constants(model);
  }
  fmt::print("backward\n");
  print_errors(model, backward);
}

}  // namespace meshweave::calibrate
