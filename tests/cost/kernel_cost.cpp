#include "sim/cost/kernel_cost.h"

#include <catch2/catch.hpp>

namespace meshweave {
namespace {

// 10 units of 1 TFLOP/s, 1 TB/s, one tile shape of full efficiency, no overheads.
DeviceModel round_device() {
  DeviceModel device;
  device.peak_flops_per_s = 10e12;
  device.peak_fp32_flops_per_s = 1e12;
  device.compute_units = 10;
  device.memory_bytes_per_s = 1e12;
  device.memory = {1.0, 0.5, 0.4, 0.25, ""};
  device.matmul.tiles = {{128, 128, 1.0}};
  device.attention.efficiency = {{64, 0.5, 0.25}, {128, 1.0, 0.5}};
  device.attention.query_block = 128;
  return device;
}

MatmulCost cost_of(const DeviceModel& device, std::int64_t m, std::int64_t n, std::int64_t k) {
  return matmul_cost(device, device.peak_flops_per_s, 0, m, n, k, 1);
}

}  // namespace

TEST_CASE("Matmul time counts whole waves of tiles", "[cost]") {
  DeviceModel device = round_device();
  // 2560×128 has 20 tiles on 10 units: 2 waves; one row more needs a 21st tile and a third wave. With k = 255 no
  // product may be split.
  const double tile = 2.0 * 128 * 128 * 255 / 1e12;
  CHECK(cost_of(device, 2560, 128, 255).seconds == Approx(2 * tile));
  CHECK(cost_of(device, 2561, 128, 255).seconds == Approx(3 * tile));
  // Smoothed by half, the third wave counts (3 + 2.1) / 2 in all.
  device.matmul.wave_smoothing = 0.5;
  CHECK(cost_of(device, 2561, 128, 255).seconds == Approx(2.55 * tile));
  device.matmul.k_overhead = 51;
  CHECK(cost_of(device, 2560, 128, 255).seconds == Approx(2 * tile * 1.2));
}

TEST_CASE("A product of few tiles is split over k", "[cost]") {
  DeviceModel device = round_device();
  // One tile, k = 4096: split in 8 parts of 512 it runs 8 times as fast on 8 of 10 units, and pays 2 us and the
  // traffic of the 8 partial products: 4·8·128² bytes at 1 TB/s.
  device.matmul.split_k_overhead_s = 2e-6;
  const MatmulCost cost = cost_of(device, 128, 128, 4096);
  CHECK(cost.split_k == 8);
  CHECK(cost.seconds == Approx(2.0 * 128 * 128 * 512 / 1e12 + 2e-6 + 4.0 * 8 * 128 * 128 / 1e12));
}

TEST_CASE("The library picks the tile of least time", "[cost]") {
  DeviceModel device = round_device();
  device.matmul.tiles = {{256, 128, 1.0}, {64, 64, 0.8}};
  CHECK(cost_of(device, 2560, 128, 255).tile.m == 256);
  CHECK(cost_of(device, 64, 640, 255).tile.m == 64);
}

TEST_CASE("Matmuls with few operations per byte are bound by memory", "[cost]") {
  const DeviceModel device = round_device();
  const MatmulCost cost = matmul_cost(device, device.peak_flops_per_s, 1e9, 1, 4096, 255, 1);
  CHECK(cost.memory_bound);
  CHECK(cost.seconds == Approx(1e-3));
}

TEST_CASE("Large products lose rate per doubling", "[cost]") {
  DeviceModel device = round_device();
  const double plain = cost_of(device, 1280, 1280, 1024).seconds;
  device.matmul.large_loss = 0.1;
  device.matmul.large_flops = 2.0 * 1280 * 1280 * 1024 / 4;  // two doublings below
  CHECK(cost_of(device, 1280, 1280, 1024).seconds == Approx(1.2 * plain));
}

TEST_CASE("Attention time counts query blocks and the keys that they visit", "[cost]") {
  DeviceModel device = round_device();
  // 10 heads of 1024 queries: 80 blocks on 10 units. A block on all 1024 keys: 4·128·1024·128 FLOP on 1 TFLOP/s.
  const double block = 4.0 * 128 * 1024 * 128 / 1e12;
  CHECK(attention_seconds(device, 0, {10, 1024, 1024, 128, false, false}) == Approx(8 * block));
  // Causal: half of the keys, and 64 masked ones in each block: (512 + 64) / 1024 of it.
  device.attention.causal_extra_keys = 64;
  CHECK(attention_seconds(device, 0, {10, 1024, 1024, 128, true, false}) == Approx(8 * block * 576 / 1024));
  // Backward: 2.5 times the FLOPs at half the efficiency.
  CHECK(attention_seconds(device, 0, {10, 1024, 1024, 128, false, true}) == Approx(8 * block * 5));
  // Head dimension 64: half the FLOPs at half the efficiency. 80 takes the efficiency of 64, the nearest.
  CHECK(attention_seconds(device, 0, {10, 1024, 1024, 64, false, false}) == Approx(8 * block));
  CHECK(attention_seconds(device, 0, {10, 1024, 1024, 80, false, false}) == Approx(8 * block * 80 / 64));
  // The tail adds its share of the longest block.
  device.attention.tail = 0.5;
  CHECK(attention_seconds(device, 0, {10, 1024, 1024, 128, false, false}) == Approx(8.5 * block));
  // Too few blocks to fill the device: the longest one decides.
  CHECK(attention_seconds(device, 0, {1, 128, 1024, 128, false, false}) == Approx(block));
}

}  // namespace meshweave
