#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "sim/base/error.h"
#include "sim/cost/collective_cost.h"
#include "validation/calibrate/error_summary.h"
#include "validation/calibrate/fits.h"
#include "validation/calibrate/minimize.h"
#include "validation/calibrate/table.h"

namespace meshweave::calibrate {
namespace {

struct Sample {
  OpKind kind = OpKind::all_reduce;
  int nodes = 1;
  int per_node = 1;
  double bytes = 0;
  double seconds = 0;
  bool judges = false;
  std::string group;  // "all_reduce 2×8"
};

// "all_reduce", "all_reduce_perf", "alltoall", "sendrecv_perf", …; throws for others.
OpKind kind_of(const std::string& name) {
  static const std::map<std::string, OpKind> kinds{{"all_reduce", OpKind::all_reduce},
                                                   {"all_gather", OpKind::all_gather},
                                                   {"reduce_scatter", OpKind::reduce_scatter},
                                                   {"alltoall", OpKind::all_to_all},
                                                   {"sendrecv", OpKind::point_to_point}};
  const auto found = kinds.find(name.substr(0, name.find("_perf")));
  if (found == kinds.end()) throw InputError(fmt::format("unknown operation \"{}\"", name));
  return found->second;
}

// Rows of one node: device, op, num_gpus, size_bytes, time_us.
Sample node_sample(const Row& row) {
  Sample s;
  s.kind = kind_of(row.text("op"));
  s.per_node = static_cast<int>(row.number("num_gpus"));
  s.seconds = row.number("time_us") * 1e-6;
  return s;
}

// Rows of nccl-tests on many nodes: run_type, test, nodes, gpus_per_node, size_bytes, time_us_median.
Sample cluster_sample(const Row& row) {
  Sample s;
  s.kind = kind_of(row.text("test"));
  s.nodes = static_cast<int>(row.number("nodes"));
  s.per_node = static_cast<int>(row.number("gpus_per_node"));
  s.seconds = row.number("time_us_median") * 1e-6;
  return s;
}

// Rows of logs: device, nodes, gpus, collective, size_bytes, time_us_ip.
Sample log_sample(const Row& row) {
  Sample s;
  s.kind = kind_of(row.text("collective"));
  s.nodes = static_cast<int>(row.number("nodes"));
  s.per_node = static_cast<int>(row.number("gpus")) / s.nodes;
  s.seconds = row.number("time_us_ip") * 1e-6;
  return s;
}

// Rows of messages between two GPUs: system, size_bytes, devices_per_node, time_ms.
Sample message_sample(const Row& row) {
  Sample s;
  s.kind = OpKind::point_to_point;
  s.per_node = static_cast<int>(row.number("devices_per_node"));
  s.nodes = s.per_node == 1 ? 2 : 1;
  s.seconds = row.number("time_ms") * 1e-3;
  return s;
}

Sample sample_of(const Row& row) {
  if (row.has("num_gpus")) return node_sample(row);
  if (row.has("test")) return cluster_sample(row);
  if (row.has("collective")) return log_sample(row);
  return message_sample(row);
}

// Left out: pairs of nodes one by one (medians over many pairs, most of them on a slow path), rings of messages over
// ten nodes (several ranks share a NIC), and logs of fabrics of another speed.
bool is_usable(const Row& row, const Sample& s) {
  if (row.has("run_type") && row.text("run_type") == "pairwise") return false;
  if (row.has("run_type") && s.kind == OpKind::point_to_point && s.nodes > 2) return false;
  if (row.has("fabric") && row.text("fabric").find("1600Gbps") != std::string::npos) return false;
  return s.seconds > 0;
}

double predict(const Cluster& base, const Sample& s) {
  Cluster cluster = base;
  cluster.nodes = s.nodes;
  if (s.kind == OpKind::point_to_point) {
    const int destination = s.nodes > 1 ? cluster.node.gpus : 1;
    return transfer_seconds(cluster, message_cost(cluster, s.bytes, 0, destination));
  }
  const Placement placement{s.nodes * s.per_node, s.nodes, s.per_node, s.per_node};
  return transfer_seconds(cluster, collective_cost(cluster, s.kind, s.bytes, placement));
}

// Base, hops, efficiencies and pipeline of a curve; zeros stay zero.
void visit_constants(CollectiveCurve& c, const std::function<void(double&)>& visit) {
  for (double* constant :
       {&c.base_s, &c.intra_hop_s, &c.nic_hop_s, &c.intra_efficiency, &c.nic_efficiency, &c.pipeline_bytes}) {
    if (*constant > 0) visit(*constant);
  }
}

Parameters parameters_of(CollectiveCurve curve) {
  Parameters p;
  visit_constants(curve, [&](double& constant) { p.push_back(constant); });
  return p;
}

Cluster with_parameters(Cluster cluster, std::size_t curve, const Parameters& p) {
  CollectiveCurve& c = cluster.node.collectives.curves[curve];
  std::size_t i = 0;
  visit_constants(c, [&](double& constant) { constant = p[i++]; });
  c.intra_efficiency = std::min(c.intra_efficiency, cluster.node.link_efficiency);
  c.nic_efficiency = std::min(c.nic_efficiency, cluster.node.nic_efficiency);
  return cluster;
}

// Every operation and placement counts alike, however many rows it has.
double mean_log_error(const Cluster& cluster, const std::vector<Sample>& samples) {
  std::map<std::string, std::pair<double, double>> sums;
  for (const Sample& s : samples) {
    if (s.judges) continue;
    auto& [error, rows] = sums[s.group];
    error += std::abs(std::log(predict(cluster, s) / s.seconds));
    ++rows;
  }
  double sum = 0;
  for (const auto& [group, errors] : sums) sum += errors.first / errors.second;
  return sum / static_cast<double>(sums.size());
}

// One curve after the other, several times over: the choice between curves makes the joint objective rough.
Cluster fit(Cluster cluster, const std::vector<Sample>& samples) {
  constexpr int cycles = 5;
  constexpr int evaluations = 1200;
  for (int cycle = 0; cycle < cycles; ++cycle) {
    for (std::size_t curve = 0; curve < cluster.node.collectives.curves.size(); ++curve) {
      const auto objective = [&](const Parameters& p) {
        return mean_log_error(with_parameters(cluster, curve, p), samples);
      };
      const Parameters start = parameters_of(cluster.node.collectives.curves[curve]);
      cluster = with_parameters(cluster, curve, minimize(objective, start, evaluations));
    }
  }
  return cluster;
}

void print_constants(const Cluster& cluster) {
  for (const CollectiveCurve& c : cluster.node.collectives.curves) {
    fmt::print(
        "  {} {}: base {:.2f} us, intra_hop {:.3f} us, nic_hop {:.2f} us, efficiency {:.3f} intra {:.3f} nic, "
        "pipeline {:.0f} kB\n",
        name_of(c.algorithm), name_of(c.protocol), c.base_s * 1e6, c.intra_hop_s * 1e6, c.nic_hop_s * 1e6,
        c.intra_efficiency, c.nic_efficiency, c.pipeline_bytes * 1e-3);
  }
}

void print_errors(const Cluster& cluster, const std::vector<Sample>& samples) {
  ErrorSummary all, large;
  std::map<std::string, ErrorSummary> by_group;
  for (const Sample& s : samples) {
    if (!s.judges) continue;
    const double predicted = predict(cluster, s);
    all.add(predicted, s.seconds);
    by_group[s.group].add(predicted, s.seconds);
    constexpr double large_bytes = 1 << 24;
    if (s.bytes >= large_bytes) large.add(predicted, s.seconds);
  }
  fmt::print("{}, all rows that judge: {}\n", cluster.node.name, all.text());
  fmt::print("  16 MiB and more: {}\n", large.text());
  for (const auto& [group, errors] : by_group) fmt::print("  {}: {}\n", group, errors.text());
}

}  // namespace

void calibrate_collectives(Cluster cluster, const FitRequest& request, const std::string& device_key) {
  std::vector<Sample> samples;
  for (const std::string& table : request.tables) {
    for (const Row& row : read_table(table)) {
      if (row.has("device") && row.text("device").find(device_key) != 0) continue;
      Sample s = sample_of(row);
      s.bytes = row.number("size_bytes");
      if (!is_usable(row, s)) continue;
      s.judges = judges(row.hash({"size_bytes"}) ^ static_cast<std::uint64_t>(s.kind));
      s.group = fmt::format("{} {}×{}", name_of(s.kind), s.nodes, s.per_node);
      samples.push_back(s);
    }
  }
  if (request.fit) {
    cluster = fit(cluster, samples);
    print_constants(cluster);
  }
  print_errors(cluster, samples);
}

}  // namespace meshweave::calibrate
