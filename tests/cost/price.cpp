#include <catch2/catch.hpp>

#include "sim/cost/costs.h"
#include "sim/program/builder.h"
#include "tests/cost/small_cluster.h"

namespace meshweave {
namespace {

TensorSpec tensor_of(const char* name, std::int64_t rows, std::int64_t columns) {
  TensorSpec spec;
  spec.name = name;
  spec.dimensions[0].size = rows;
  spec.dimensions[1].size = columns;
  spec.rank = 2;
  return spec;
}

Scenario scenario_of(Cluster cluster) {
  Scenario scenario;
  DeviceModel& device = cluster.node.device;
  device.peak_flops_per_s = 10e12;
  device.peak_fp32_flops_per_s = 1e12;
  device.compute_units = 10;
  device.memory_bytes_per_s = 1e12;
  device.memory = {1.0, 0.5, 0.4, 0.25, "memory source"};
  device.matmul.tiles = {{128, 128, 1.0}};
  device.matmul.source = "matmul source";
  device.kernel_floor_s = 1e-6;
  device.host_issue_s = 5e-6;
  device.communication_slowdown = 1.2;
  device.sustained_factor = 0.5;
  scenario.cluster = std::move(cluster);
  scenario.cluster.node.collectives.source = "collective source";
  scenario.layout_by_module.resize(1);
  return scenario;
}

// Two micro-batches on two chunks: an activation forward, its backward, a weight gradient, a re-emitted forward.
struct Example {
  ProgramBuilder builder;
  Body* body = nullptr;

  Example() {
    builder.stream(StreamKind::compute);
    builder.program().grids.emplace_back(Degrees{.tp = 4, .dp = 2}, "tp-dp", 0);
    builder.program().body_of_rank.assign(8, 0);
    body = &builder.add_body("all");
  }
  std::uint32_t tensor(std::uint32_t spec) { return builder.transient(*body, spec, Category::activations, {}); }
  void elementwise(Phase phase, Place where) {
    const std::uint32_t spec = builder.tensor_spec(tensor_of("x", 1000, 1000));
    OpSpec op;
    op.kind = OpKind::activation;
    op.phase = phase;
    const std::vector<std::uint32_t> reads{tensor(spec)}, writes{tensor(spec)};
    builder.append(*body, op, reads, writes, where);
  }
  void collective(OpKind kind, std::uint16_t group) {
    const std::uint32_t spec = builder.tensor_spec(tensor_of("x", 1000, 1000));
    OpSpec op;
    op.kind = kind;
    op.group = group;
    op.stream = builder.stream(StreamKind::tensor);
    const std::vector<std::uint32_t> reads{tensor(spec)}, writes{tensor(spec)};
    builder.append(*body, op, reads, writes, {});
  }
};

}  // namespace

TEST_CASE("The fixed cost model charges the first op of each part", "[cost]") {
  Example example;
  for (const std::int16_t chunk : {0, 1}) {
    const Place where{0, 0, chunk};
    example.elementwise(Phase::forward, where);
    example.elementwise(Phase::forward, where);
    example.elementwise(Phase::recompute, where);
    example.elementwise(Phase::backward_data, where);
    example.elementwise(Phase::backward_weight, where);
    example.elementwise(Phase::backward_weight, where);
  }
  example.elementwise(Phase::optimizer, {});
  example.elementwise(Phase::forward, {0, 1, 0});
  const Program program = example.builder.take();
  Scenario scenario = scenario_of(small_cluster(NodeFabric::nvswitch, 2));
  scenario.cost = {CostKind::fixed, 4e-12, 6e-12, 8e-12};
  scenario.layout_by_module[0].vpp = 2;
  const Costs costs = price(program, make_communicators(program), scenario);
  // 4, 6 and 8 ps per rank and micro-batch, over two virtual stages.
  std::vector<std::int64_t> durations;
  for (const Picoseconds p : costs.compute[0]) durations.push_back(p.count());
  CHECK(durations == std::vector<std::int64_t>{2, 0, 0, 3, 4, 0, 2, 0, 0, 3, 4, 0, 0, 2});
  CHECK(costs.host_issue.count() == 0);
  CHECK(costs.slowdown == 1);
  CHECK(costs.message(1e9, 0, 4).startup.count() == 0);
  CHECK(costs.message(1e9, 0, 4).nic_bytes == 0);
}

TEST_CASE("Prices follow the device and the placement of groups", "[cost]") {
  Example example;
  const std::uint16_t tp = example.builder.group({"tp", 0, {{Axis::tp, 1, 4}}});
  const std::uint16_t dp = example.builder.group({"dp", 0, {{Axis::dp, 1, 2}}});
  example.elementwise(Phase::forward, {0, 0, 0});
  example.collective(OpKind::all_reduce, tp);
  example.collective(OpKind::all_reduce, dp);
  const Program program = example.builder.take();
  Scenario scenario = scenario_of(small_cluster(NodeFabric::nvswitch, 2));
  const Communicators communicators = make_communicators(program);
  const Costs costs = price(program, communicators, scenario);
  // 2 MB read and 2 MB written at a quarter of 1 TB/s, and the floor: 17 us.
  CHECK(costs.compute[0][0] == picoseconds_from_seconds(17e-6));
  CHECK(costs.compute[0][1].count() == 0);
  CHECK(costs.host_issue == picoseconds_from_seconds(5e-6));
  CHECK(costs.slowdown == 1.2);
  // 2 MB: among 4 in a node 3 MB per link; between 2 nodes 2 MB per NIC.
  const auto& ops = program.bodies[0].ops;
  const TransferCost& inside = costs.transfer(ops[1].spec, tp, communicators.by_group[tp].instance_of[5]);
  CHECK(inside.intra_bytes == Approx(3e6));
  CHECK(inside.nic_bytes == 0);
  const TransferCost& across = costs.transfer(ops[2].spec, dp, communicators.by_group[dp].instance_of[5]);
  CHECK(across.intra_bytes == 0);
  CHECK(across.nic_bytes == Approx(2e6));
  // CUDA graphs issue for free; a scenario may say what issuing costs.
  scenario.host.graphs = true;
  CHECK(price(program, communicators, scenario).host_issue.count() == 0);
  scenario.host = {false, 2e-6};
  CHECK(price(program, communicators, scenario).host_issue == picoseconds_from_seconds(2e-6));
}

TEST_CASE("A weight gradient reads and writes the main gradient behind its product", "[cost]") {
  Example example;
  ProgramBuilder& builder = example.builder;
  // dW [1280, 1280] = dyᵀ [1280, 1000] · x [1000, 1280]: 100 tiles on 10 units of 1 TFLOP/s.
  const std::uint32_t activation = builder.tensor_spec(tensor_of("x", 1000, 1280));
  for (const DType type : {DType::fp32, DType::bf16}) {
    TensorSpec gradient = tensor_of("gradient", 1280, 1280);
    gradient.dtype = type;
    const std::uint32_t main = example.tensor(builder.tensor_spec(gradient));
    OpSpec op;
    op.kind = OpKind::matmul;
    op.phase = Phase::backward_weight;
    op.attributes.matmul = MatmulForm::weight_gradient;
    op.attributes.accumulates = true;
    const std::vector<std::uint32_t> reads{example.tensor(activation), example.tensor(activation), main};
    builder.append(*example.body, op, reads, std::vector{main}, {});
  }
  const Program program = builder.take();
  const Scenario scenario = scenario_of(small_cluster(NodeFabric::nvswitch, 2));
  const Costs costs = price(program, make_communicators(program), scenario);
  // The floor, the product at half the rate, and 8 or 4 bytes an element where a plain epilogue writes 2.
  const double product = 2.0 * 1280 * 1280 * 1000 / 10e12 / 0.5;
  const double elements = 1280 * 1280;
  CHECK(seconds_from_picoseconds(costs.compute[0][0]) == Approx(1e-6 + product + 6 * elements / 1e12));
  CHECK(seconds_from_picoseconds(costs.compute[0][1]) == Approx(1e-6 + product + 2 * elements / 1e12));
}

TEST_CASE("The loss walks over the logits as an eager framework does", "[cost]") {
  Example example;
  ProgramBuilder& builder = example.builder;
  const std::uint32_t logits = example.tensor(builder.tensor_spec(tensor_of("logits", 1000, 1000)));
  const std::uint32_t column = builder.tensor_spec(tensor_of("column", 1000, 1));
  for (const OpKind kind : {OpKind::cross_entropy_max, OpKind::cross_entropy_sum, OpKind::cross_entropy_backward}) {
    OpSpec op;
    op.kind = kind;
    const std::vector<std::uint32_t> reads{example.tensor(column), logits}, writes{example.tensor(column)};
    builder.append(*example.body, op, reads, writes, {});
  }
  const Program program = builder.take();
  const Scenario scenario = scenario_of(small_cluster(NodeFabric::nvswitch, 2));
  const Costs costs = price(program, make_communicators(program), scenario);
  // 1 M logits at 1 TB/s: 10, 28 and 14 bytes each, and the floor.
  CHECK(seconds_from_picoseconds(costs.compute[0][0]) == Approx(11e-6));
  CHECK(seconds_from_picoseconds(costs.compute[0][1]) == Approx(29e-6));
  CHECK(seconds_from_picoseconds(costs.compute[0][2]) == Approx(15e-6));
}

TEST_CASE("Origins name the links of a mesh", "[cost]") {
  Example example;
  ProgramBuilder& builder = example.builder;
  const std::uint16_t tp = builder.group({"tp", 0, {{Axis::tp, 1, 4}}});
  example.collective(OpKind::all_gather, tp);
  example.collective(OpKind::all_to_all, tp);
  const auto message = [&](Axis axis, std::uint8_t stripes) {
    const std::uint32_t t = example.tensor(builder.tensor_spec(tensor_of("x", 1000, 1000)));
    OpSpec op;
    op.kind = OpKind::point_to_point;
    op.stream = builder.stream(StreamKind::pipeline);
    op.attributes.stripes = stripes;
    op.label = name_of(axis);
    const std::vector<Message> messages{{true, builder.peer(peer_along(builder.program().grids[0], axis, 1)), 0, t}};
    builder.append(*example.body, op, std::vector{t}, {}, {}, messages);
  };
  message(Axis::tp, 1);
  message(Axis::tp, 3);
  message(Axis::dp, 3);
  const Program program = builder.take();
  Scenario scenario = scenario_of(small_cluster(NodeFabric::mesh, 2));
  const auto ends_with = [&](std::size_t op, const std::string& end) {
    const std::string text = explain_cost(program, scenario, program.spec(program.bodies[0].ops[op])).text;
    INFO(text);
    CHECK(text.size() >= end.size());
    CHECK(text.substr(text.size() - std::min(text.size(), end.size())) == end);
  };
  // 2 MB over 4 members: 1.5 MB each.
  ends_with(0, "1.5 MB over 3 links of the node at 300 GB/s");
  ends_with(1, "1.5 MB over 3 links of the node at 300 GB/s");
  // Messages of 2 MB to the next rank of tp, in the node, and of dp, on the other one.
  ends_with(2, "2 MB over 1 link of the node at 100 GB/s");
  ends_with(3, "2 MB striped over 3 links at 300 GB/s");
  ends_with(4, "2 MB over the NIC at 10 GB/s");
  scenario.collectives.mesh = MeshLinks::one;
  ends_with(0, "1.5 MB over 1 link (plain ring) at 100 GB/s");
  ends_with(1, "1.5 MB over 3 links of the node at 300 GB/s");
  // The prices follow: 15 us over one link.
  const Communicators communicators = make_communicators(program);
  const TransferCost& plain = price(program, communicators, scenario).transfers.front();
  CHECK(plain.intra_links == 1);
  CHECK(plain.intra_cap == Approx(100e9));
}

TEST_CASE("Origins name the model and the source of its constants", "[cost]") {
  Example example;
  const std::uint16_t tp = example.builder.group({"tp", 0, {{Axis::tp, 1, 4}}});
  example.elementwise(Phase::forward, {0, 0, 0});
  example.collective(OpKind::all_gather, tp);
  const Program program = example.builder.take();
  const Scenario scenario = scenario_of(small_cluster(NodeFabric::nvswitch, 2));
  const CostOrigin kernel = explain_cost(program, scenario, program.op_specs[program.bodies[0].ops[0].spec]);
  CHECK(kernel.text == "activation: 4 MB at 250 GB/s + 1 us floor");
  CHECK(kernel.source == "memory source");
  const CostOrigin gather = explain_cost(program, scenario, program.op_specs[program.bodies[0].ops[1].spec]);
  CHECK(
      gather.text.find("over 4 ranks on 1 node: ring Simple, startup 0 s + 1.5 MB over the node's links at 100 GB/s") !=
      std::string::npos);
  CHECK(gather.source == "collective source");
}

}  // namespace meshweave
