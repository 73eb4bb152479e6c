#include "sim/cost/kernel_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/error.h"
#include "sim/base/quantity.h"
#include "sim/base/text.h"

namespace meshweave {
namespace {

double streaming_rate(const DeviceModel& device) { return device.memory_bytes_per_s * device.memory.streaming; }

// Tiles in flight over the device, a partial last wave smoothed.
double waves_of(double tiles, const DeviceModel& device) {
  const double exact = tiles / device.compute_units;
  const double whole = std::ceil(exact);
  const double smooth = std::max(1.0, exact);
  return whole + (smooth - whole) * device.matmul.wave_smoothing;
}

double large_factor(const MatmulModel& model, double flops) {
  if (model.large_flops <= 0 || flops <= model.large_flops) return 1;
  return 1 + model.large_loss * std::log2(flops / model.large_flops);
}

bool may_split(int split, double tiles, std::int64_t k, int compute_units) {
  constexpr int least_k_per_part = 256;
  return split == 1 || (tiles * split <= 2.0 * compute_units && k / split >= least_k_per_part);
}

double nearest_efficiency(const AttentionModel& model, double head_dim, bool backward) {
  const auto* best = &model.efficiency.front();
  for (const auto& candidate : model.efficiency) {
    if (std::abs(candidate.head_dim - head_dim) < std::abs(best->head_dim - head_dim)) best = &candidate;
  }
  return backward ? best->backward : best->forward;
}

DType operand_type(const Program& program, const OpSpec& spec) {
  const auto& operands = spec.reads.empty() ? spec.writes : spec.reads;
  return operands.empty() ? DType::bf16 : program.tensor_specs[operands.front()].dtype;
}

double peak_of(const DeviceModel& device, DType type) {
  return type == DType::fp32 ? device.peak_fp32_flops_per_s : device.peak_flops_per_s;
}

// Seconds by which the epilogue of a product that adds into an accumulator is longer than that of a plain one. The
// plain epilogue, 2 bytes an element, is part of the fit (`k_overhead`: at 128×256 about the time of 64 kB at a
// unit's share of the bandwidth, so it is not hidden behind the next tile); the accumulator is read and written.
double accumulation_seconds(const DeviceModel& device, const Program& program, const OpSpec& spec) {
  if (spec.kind != OpKind::matmul || spec.attributes.matmul != MatmulForm::weight_gradient) return 0;
  constexpr std::int64_t plain_epilogue_bytes = 2;
  const TensorSpec& gradient = program.tensor_specs[spec.writes.front()];
  const std::int64_t passes = spec.attributes.accumulates ? 2 : 1;
  const std::int64_t extra = passes * gradient.bytes() - plain_epilogue_bytes * gradient.elements();
  return static_cast<double>(extra) / streaming_rate(device);
}

KernelCost product_cost(const DeviceModel& device, const Program& program, const OpSpec& spec, const Work& work,
                        bool explain) {
  const double peak = peak_of(device, operand_type(program, spec));
  const MatmulCost cost = matmul_cost(device, peak, work.bytes, work.m, work.n, work.k, work.batch);
  KernelCost result;
  // A product bound by memory counts the accumulator among its bytes.
  const double accumulation = cost.memory_bound ? 0.0 : accumulation_seconds(device, program, spec);
  const double sustained = cost.memory_bound ? 1.0 : device.sustained_factor;
  result.seconds = device.kernel_floor_s + cost.seconds / sustained + accumulation;
  if (!explain) return result;
  const double flops = 2.0 * static_cast<double>(work.m) * static_cast<double>(work.n) * static_cast<double>(work.k) *
                       static_cast<double>(work.batch);
  result.text =
      fmt::format("matmul {}×{}×{}{}: ", work.m, work.n, work.k, work.batch > 1 ? fmt::format(" ×{}", work.batch) : "");
  if (cost.memory_bound) {
    result.text += fmt::format("bound by memory, {} at {}", format_quantity(work.bytes, QuantityKind::bytes),
                               format_quantity(streaming_rate(device), QuantityKind::bytes_per_second));
  } else {
    result.text +=
        fmt::format("tile {}×{}, split of k {}, {:.4g} waves", cost.tile.m, cost.tile.n, cost.split_k, cost.waves);
    if (accumulation > 0) {
      result.text += fmt::format(", accumulator {}", format_quantity(accumulation, QuantityKind::seconds));
    }
  }
  result.text += fmt::format(", {:.0f} % of {}", 100 * flops / result.seconds / peak,
                             format_quantity(peak, QuantityKind::flops_per_second));
  return result;
}

KernelCost attention_cost(const DeviceModel& device, const OpSpec& spec, const Work& work, bool explain) {
  AttentionShape shape;
  shape.heads = static_cast<double>(work.batch);
  shape.q_length = static_cast<double>(work.q_length);
  shape.kv_length = static_cast<double>(work.kv_length);
  shape.head_dim = static_cast<double>(work.head_dim);
  shape.causal = spec.attributes.mask == AttentionMask::causal;
  shape.backward = spec.kind == OpKind::attention_backward;
  shape.visible = spec.attributes.visible;
  KernelCost result;
  if (work.visible == 0) {
    if (explain) result.text = "fused attention that sees none of these keys: not launched";
    return result;
  }
  result.seconds = device.kernel_floor_s + attention_seconds(device, work.bytes, shape) / device.sustained_factor;
  if (explain) {
    const std::string mask = !shape.causal       ? ""
                             : shape.visible < 0 ? ", causal"
                                                 : fmt::format(", {:.3g} % visible", 100 * shape.visible);
    result.text = fmt::format("fused attention{}, {} × {} × {} × {}{}: {:.0f} % of {}",
                              shape.backward ? " backward" : "", count_text(work.batch, "head"),
                              work.q_length == 1 ? "1 query" : fmt::format("{} queries", work.q_length),
                              count_text(work.kv_length, "key"), work.head_dim, mask,
                              100 * work.flops / result.seconds / device.peak_flops_per_s,
                              format_quantity(device.peak_flops_per_s, QuantityKind::flops_per_second));
  }
  return result;
}

// Libraries sum γ's and β's gradients inside the kernel of dx, so that only the partial sums of each compute unit
// remain (cuDNN, Apex, Transformer Engine): the weight gradient reads those instead of dy and x.
double norm_weight_gradient_bytes(const DeviceModel& device, const Program& program, const OpSpec& spec) {
  double bytes = 0;
  for (const std::uint32_t written : spec.writes) {
    constexpr double partial_sum_bytes = 4;
    bytes += static_cast<double>(program.tensor_specs[written].elements()) * partial_sum_bytes * device.compute_units;
  }
  return bytes;
}

// Eager frameworks walk over the logits once per step of the loss (Megatron-LM core/tensor_parallel/cross_entropy.py,
// its default): a cast to fp32 and a maximum; then a subtraction, an exponential, a sum and a division, in place; in
// the backward a product in place and a cast back. Bytes per logit of each of the three ops.
double loss_pass_bytes(OpKind kind) {
  constexpr double cast = 2 + 4, reduce = 4, in_place = 4 + 4;
  switch (kind) {
    case OpKind::cross_entropy_max: return cast + reduce;
    case OpKind::cross_entropy_sum: return in_place + in_place + reduce + in_place;
    case OpKind::cross_entropy_backward: return in_place + cast;
    default: bug("no pass over the logits: " + std::string(name_of(kind)));
  }
}

double loss_bytes(const Program& program, const OpSpec& spec) {
  std::int64_t logits = 0;
  for (const std::uint32_t read : spec.reads) logits = std::max(logits, program.tensor_specs[read].elements());
  return loss_pass_bytes(spec.kind) * static_cast<double>(logits);
}

double memory_bytes(const DeviceModel& device, const Program& program, const OpSpec& spec, const Work& work) {
  const PricedAs priced_as = facts_of(spec.kind).priced_as;
  if (priced_as == PricedAs::norm_sums) return norm_weight_gradient_bytes(device, program, spec);
  return priced_as == PricedAs::loss_passes ? loss_bytes(program, spec) : work.bytes;
}

KernelCost memory_cost(const DeviceModel& device, const Program& program, const OpSpec& spec, const Work& work,
                       bool explain) {
  const double rate = device.memory_bytes_per_s * bandwidth_share(device.memory, spec.kind);
  const double bytes = memory_bytes(device, program, spec, work);
  KernelCost result;
  result.seconds = device.kernel_floor_s + bytes / rate;
  if (explain) {
    result.text =
        fmt::format("{}: {} at {} + {} floor", name_of(spec.kind), format_quantity(bytes, QuantityKind::bytes),
                    format_quantity(rate, QuantityKind::bytes_per_second),
                    format_quantity(device.kernel_floor_s, QuantityKind::seconds));
  }
  return result;
}

}  // namespace

double bandwidth_share(const MemoryModel& memory, OpKind kind) {
  switch (facts_of(kind).priced_as) {
    case PricedAs::streaming:
    case PricedAs::loss_passes: return memory.streaming;
    case PricedAs::elementwise: return memory.elementwise;
    case PricedAs::norms:
    case PricedAs::norm_sums: return memory.norm;
    case PricedAs::norms_backward: return memory.norm_backward;
    case PricedAs::product:
    case PricedAs::products:
    case PricedAs::fused_attention:
    case PricedAs::collective:
    case PricedAs::messages: break;
  }
  bug("not bound by memory: " + std::string(name_of(kind)));
}

MatmulCost matmul_cost(const DeviceModel& device, double peak, double bytes, std::int64_t m, std::int64_t n,
                       std::int64_t k, std::int64_t batch) {
  const MatmulModel& model = device.matmul;
  const double products = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(batch);
  const double memory_seconds = bytes / streaming_rate(device);
  const double unit_rate = peak / device.compute_units;
  MatmulCost best;
  best.seconds = std::numeric_limits<double>::infinity();
  for (const MatmulTile& tile : model.tiles) {
    const double tiles = std::ceil(static_cast<double>(m) / tile.m) * std::ceil(static_cast<double>(n) / tile.n) *
                         static_cast<double>(batch);
    for (const int split : {1, 2, 4, 8}) {
      if (!may_split(split, tiles, k, device.compute_units)) break;
      const double waves = waves_of(tiles * split, device);
      const double depth = static_cast<double>(k) / split + model.k_overhead;
      double seconds = waves * 2.0 * tile.m * tile.n * depth / (unit_rate * tile.efficiency);
      if (split > 1) seconds += model.split_k_overhead_s + 4.0 * split * products / streaming_rate(device);
      if (seconds < best.seconds) best = {seconds, tile, split, waves, false};
    }
  }
  best.seconds *= large_factor(model, 2.0 * products * static_cast<double>(k));
  if (memory_seconds > best.seconds) {
    best.seconds = memory_seconds;
    best.memory_bound = true;
  }
  return best;
}

double attention_seconds(const DeviceModel& device, double bytes, const AttentionShape& shape) {
  const AttentionModel& model = device.attention;
  const double efficiency = nearest_efficiency(model, shape.head_dim, shape.backward);
  const double overhead = shape.backward ? model.backward_overhead_keys : model.forward_overhead_keys;
  const double products = shape.backward ? 10.0 : 4.0;
  const bool own_share = shape.visible >= 0;
  const double visible = own_share ? shape.visible : shape.causal ? 0.5 : 1.0;
  const double visited = shape.kv_length * visible + (visible < 1 ? model.causal_extra_keys : 0);
  const double furthest =
      own_share ? std::min(shape.kv_length, shape.kv_length * visible + shape.q_length / 2) : shape.kv_length;
  const double rate = device.peak_flops_per_s / device.compute_units * efficiency;
  const double item_flops_per_key = products * model.query_block * shape.head_dim;
  const double items = shape.heads * std::ceil(shape.q_length / model.query_block);
  const double mean = item_flops_per_key * (visited + overhead) / rate;
  const double longest = item_flops_per_key * (furthest + overhead) / rate;
  const double compute = std::max(longest, mean * items / device.compute_units + model.tail * longest);
  return std::max(compute, bytes / streaming_rate(device));
}

KernelCost kernel_cost(const DeviceModel& device, const Program& program, const OpSpec& spec, bool explain) {
  const Work work = work_of(program, spec);
  switch (facts_of(spec.kind).priced_as) {
    case PricedAs::product:
    case PricedAs::products: return product_cost(device, program, spec, work, explain);
    case PricedAs::fused_attention: return attention_cost(device, spec, work, explain);
    case PricedAs::streaming:
    case PricedAs::elementwise:
    case PricedAs::norms:
    case PricedAs::norms_backward:
    case PricedAs::norm_sums:
    case PricedAs::loss_passes: return memory_cost(device, program, spec, work, explain);
    case PricedAs::collective:
    case PricedAs::messages: break;
  }
  bug("a communication is no kernel");
}

}  // namespace meshweave
