#include "sim/cost/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "sim/base/error.h"
#include "sim/base/quantity.h"
#include "sim/base/random.h"
#include "sim/base/text.h"
#include "sim/cost/collective_cost.h"
#include "sim/cost/kernel_cost.h"

namespace meshweave {
namespace {

double payload_of(const Program& program, const OpSpec& spec) {
  const auto input = static_cast<double>(input_bytes(program, spec));
  const auto output = static_cast<double>(output_bytes(program, spec));
  return std::max(input, output);
}

// By op spec, the duration of a compute op.
std::vector<Picoseconds> price_kernels(const Program& program, const DeviceModel& device) {
  std::vector<Picoseconds> durations(program.op_specs.size(), Picoseconds{0});
  for (std::size_t s = 0; s < durations.size(); ++s) {
    const OpSpec& spec = program.op_specs[s];
    if (is_communication(spec.kind)) continue;
    durations[s] = picoseconds_from_seconds(kernel_cost(device, program, spec, false).seconds);
  }
  return durations;
}

std::vector<Picoseconds> durations_of(const Body& body, const std::vector<Picoseconds>& by_spec) {
  std::vector<Picoseconds> durations(body.ops.size());
  for (std::size_t i = 0; i < body.ops.size(); ++i) durations[i] = by_spec[body.ops[i].spec];
  return durations;
}

// Which of the fixed durations an op may carry; −1 for none.
int fixed_part(const Program& program, const OpSpec& spec) {
  if (is_communication(spec.kind) || program.streams[spec.stream].kind != StreamKind::compute) return -1;
  switch (spec.phase) {
    case Phase::forward: return 0;
    case Phase::backward_data: return 1;
    case Phase::backward_weight: return 2;
    case Phase::recompute:
    case Phase::gradient_reduce:
    case Phase::optimizer:
    case Phase::parameter_gather: return -1;
  }
  bug("unknown phase");
}

// The first op of each (chunk, micro-batch, part) carries the whole duration of its virtual stage.
std::vector<Picoseconds> fixed_durations(const Program& program, const Body& body, const Scenario& scenario) {
  const std::array<double, 3> seconds{scenario.cost.forward_s, scenario.cost.backward_data_s,
                                      scenario.cost.backward_weight_s};
  std::vector<Picoseconds> durations(body.ops.size(), Picoseconds{0});
  std::set<std::array<int, 4>> carried;
  for (std::size_t i = 0; i < body.ops.size(); ++i) {
    const Op& op = body.ops[i];
    const OpSpec& spec = program.spec(op);
    const int part = fixed_part(program, spec);
    if (part < 0 || op.chunk < 0 || op.micro_batch < 0) continue;
    if (!carried.insert({spec.module, op.chunk, op.micro_batch, part}).second) continue;
    durations[i] =
        picoseconds_from_seconds(seconds[static_cast<std::size_t>(part)] / scenario.layout_by_module[spec.module].vpp);
  }
  return durations;
}

// The distinct placements of a group's instances, in order of first appearance.
struct GroupPlacements {
  std::vector<Placement> distinct;
  std::vector<std::uint32_t> of_instance;
};

GroupPlacements placements_of(const Cluster& cluster, const Communicators::Of& group) {
  GroupPlacements result;
  std::map<std::uint64_t, std::uint32_t> known;
  for (std::uint32_t instance = 0; instance < group.instances(); ++instance) {
    const auto [entry, fresh] = known.try_emplace(placement_signature(cluster, group.of(instance)),
                                                  static_cast<std::uint32_t>(result.distinct.size()));
    if (fresh) result.distinct.push_back(placement_of(cluster, group.of(instance)));
    result.of_instance.push_back(entry->second);
  }
  return result;
}

void price_collectives(const Program& program, const Communicators& communicators, MeshLinks mesh, Costs& costs) {
  std::vector<GroupPlacements> placements;
  for (const Communicators::Of& group : communicators.by_group) {
    placements.push_back(placements_of(costs.cluster, group));
    costs.placement_of.push_back(placements.back().of_instance);
  }
  costs.transfer_base.assign(program.op_specs.size(), 0);
  for (std::size_t s = 0; s < program.op_specs.size(); ++s) {
    const OpSpec& spec = program.op_specs[s];
    if (!is_collective(spec.kind)) continue;
    costs.transfer_base[s] = static_cast<std::uint32_t>(costs.transfers.size());
    const double payload = payload_of(program, spec);
    for (const Placement& placement : placements[spec.group].distinct) {
      costs.transfers.push_back(costs.free_communication
                                    ? TransferCost{}
                                    : collective_cost(costs.cluster, spec.kind, payload, placement, mesh));
    }
  }
}

// "over 7 links of the node", "over 1 link (plain ring)", "striped over 7 links".
std::string inner_links_text(const TransferCost& cost, const Cluster& cluster, OpKind kind, MeshLinks mesh) {
  if (cluster.node.fabric != NodeFabric::mesh) return "over the node's links";
  const std::string links = count_text(cost.intra_links, "link");
  if (kind == OpKind::point_to_point && cost.intra_links > 1) return "striped over " + links;
  const bool plain = is_collective(kind) && kind != OpKind::all_to_all && mesh == MeshLinks::one;
  return fmt::format("over {} {}", links, plain ? "(plain ring)" : "of the node");
}

std::string transfer_text(const TransferCost& cost, const Cluster& cluster, const std::string& inner_links) {
  if (cost.intra_bytes == 0 && cost.nic_bytes == 0) return "nothing to move";
  std::string text = fmt::format("{} {}, startup {}", cost.algorithm, cost.protocol,
                                 format_quantity(seconds_from_picoseconds(cost.startup), QuantityKind::seconds));
  const auto add_class = [&](std::string_view name, double bytes, double rate) {
    if (bytes <= 0) return;
    text += fmt::format(" + {} {} at {}", format_quantity(bytes, QuantityKind::bytes), name,
                        format_quantity(rate, QuantityKind::bytes_per_second));
  };
  add_class(inner_links, cost.intra_bytes, std::min(cost.intra_cap, intra_rate(cluster, cost.intra_links)));
  add_class("over the NIC", cost.nic_bytes, std::min(cost.nic_cap, nic_rate(cluster)));
  return text;
}

CostOrigin collective_origin(const Program& program, const Scenario& scenario, const OpSpec& spec) {
  const Cluster& cluster = scenario.cluster;
  const MeshLinks mesh = scenario.collectives.mesh;
  const Group& group = program.groups[spec.group];
  const ProcessGrid& grid = program.grids[group.grid];
  const std::vector<int> members = grid.group(grid.offset(), group.patterns);
  const Placement placement = placement_of(cluster, members);
  const double payload = payload_of(program, spec);
  CostOrigin origin;
  origin.text =
      fmt::format("{} of {} over {} on {}: ", name_of(spec.kind), format_quantity(payload, QuantityKind::bytes, true),
                  count_text(placement.members, "rank"), count_text(placement.nodes, "node"));
  const TransferCost cost = collective_cost(cluster, spec.kind, payload, placement, mesh);
  origin.text += transfer_text(cost, cluster, inner_links_text(cost, cluster, spec.kind, mesh));
  origin.source = cluster.node.collectives.source;
  return origin;
}

// Of all messages of `bytes` that ops of this spec send, the one that takes longest; nothing where they send none.
TransferCost slowest_message(const Program& program, const Cluster& cluster, const OpSpec& spec, double bytes) {
  TransferCost slowest;
  double most = 0;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    const Body& body = program.bodies[program.body_of_rank[static_cast<std::size_t>(rank)]];
    const auto op =
        std::find_if(body.ops.begin(), body.ops.end(), [&](const Op& each) { return &program.spec(each) == &spec; });
    if (op == body.ops.end()) continue;
    for (const Message& message : program.messages(body, *op)) {
      const int peer = program.peer_rank(rank, message.peer);
      const TransferCost cost =
          message_cost(cluster, bytes, message.send ? rank : peer, message.send ? peer : rank, spec.attributes.stripes);
      const double seconds = transfer_seconds(cluster, cost);
      if (seconds <= most) continue;
      most = seconds;
      slowest = cost;
    }
  }
  return slowest;
}

CostOrigin messages_origin(const Program& program, const Cluster& cluster, const OpSpec& spec) {
  const double bytes = payload_of(program, spec);
  CostOrigin origin;
  origin.text = fmt::format("messages of {} in all: ", format_quantity(bytes, QuantityKind::bytes, true));
  const TransferCost cost = slowest_message(program, cluster, spec, bytes);
  origin.text += transfer_text(cost, cluster, inner_links_text(cost, cluster, spec.kind, MeshLinks::all));
  origin.source = cluster.node.collectives.source;
  return origin;
}

const std::string& kernel_source(const DeviceModel& device, OpKind kind) {
  switch (facts_of(kind).priced_as) {
    case PricedAs::product:
    case PricedAs::products: return device.matmul.source;
    case PricedAs::fused_attention: return device.attention.source;
    case PricedAs::streaming:
    case PricedAs::elementwise:
    case PricedAs::norms:
    case PricedAs::norms_backward:
    case PricedAs::norm_sums:
    case PricedAs::loss_passes: return device.memory.source;
    case PricedAs::collective:
    case PricedAs::messages: break;
  }
  bug("a communication is no kernel");
}

}  // namespace

TransferCost Costs::message(double bytes, int source, int destination, int stripes) const {
  if (free_communication || source == destination) return {};
  return message_cost(cluster, bytes, source, destination, stripes);
}

Costs price(const Program& program, const Communicators& communicators, const Scenario& scenario) {
  Costs costs;
  const DeviceModel& device = scenario.cluster.node.device;
  const bool fixed = scenario.cost.kind == CostKind::fixed;
  costs.cluster = scenario.cluster;
  costs.free_communication = fixed;
  if (!fixed) {
    const double issue_s = scenario.host.issue_s < 0 ? device.host_issue_s : scenario.host.issue_s;
    costs.host_issue = picoseconds_from_seconds(scenario.host.graphs ? 0 : issue_s);
    costs.slowdown = device.communication_slowdown;
  }
  const std::vector<Picoseconds> by_spec = fixed ? std::vector<Picoseconds>{} : price_kernels(program, device);
  for (const Body& body : program.bodies) {
    costs.compute.push_back(fixed ? fixed_durations(program, body, scenario) : durations_of(body, by_spec));
  }
  price_collectives(program, communicators, scenario.collectives.mesh, costs);
  return costs;
}

CostOrigin explain_cost(const Program& program, const Scenario& scenario, const OpSpec& spec) {
  if (scenario.cost.kind == CostKind::fixed) return {"fixed: the scenario gives the durations", "the scenario"};
  if (is_collective(spec.kind)) return collective_origin(program, scenario, spec);
  if (spec.kind == OpKind::point_to_point) return messages_origin(program, scenario.cluster, spec);
  const DeviceModel& device = scenario.cluster.node.device;
  return {kernel_cost(device, program, spec, true).text, kernel_source(device, spec.kind)};
}

std::uint64_t placement_signature(const Cluster& cluster, std::span<const int> ranks) {
  const Placement p = placement_of(cluster, ranks);
  bool one_lane = true;
  for (const int rank : ranks) one_lane = one_lane && cluster.lane_of(rank) == cluster.lane_of(ranks.front());
  std::uint64_t signature = 0;
  for (const int part : {p.members, p.nodes, p.least_per_node, p.most_per_node, one_lane ? 1 : 0}) {
    signature = mix_bits(signature ^ static_cast<std::uint64_t>(part));
  }
  return signature;
}

}  // namespace meshweave
