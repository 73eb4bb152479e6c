#include "sim/scenario/check_limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace meshweave {
namespace {

constexpr int most_ranks = 1 << 20;
constexpr double most_parameters = 1e15;
constexpr double most_layer_passes = 200'000;  // of one rank: its layers times its micro-batches
constexpr double longest_step_s = 1e6;
constexpr double most_bytes = 0x1p62;  // sums of bytes stay in int64

// All in double: products of the fields' largest values exceed int64.
struct Sizes {
  Sizes(const Scenario& s, const Module& module, const ModuleLayout& layout) : Sizes(s, module, module.shape, layout) {}

  double parameters() const {
    return layers * hidden * (2 * query + 2 * keys + 2 * ffn) + ends * hidden + sequence * hidden;
  }
  double layer_passes() const { return layers / stages * micro_batches; }
  double largest_tensor() const {
    return tokens * std::max({hidden, input, query + 2 * keys, ffn, vocabulary / tp, scores});
  }

  double tp, replicas, stages, layers, hidden, input, query, keys, ffn, vocabulary, ends, sequence, tokens, scores,
      micro_batches;

 private:
  Sizes(const Scenario& s, const Module& module, const TransformerShape& shape, const ModuleLayout& layout)
      : tp(layout.tp * layout.tsp.degree),
        replicas(static_cast<double>(layout.cp.degree)),
        stages(module.hosted() ? 1.0 : layout.pp),  // a module inside another stands in one stage
        layers(static_cast<double>(shape.layers)),
        hidden(static_cast<double>(shape.hidden)),
        input(static_cast<double>(shape.input_width)),
        query(static_cast<double>(shape.heads) * static_cast<double>(shape.head_dim)),
        keys(static_cast<double>(shape.kv_heads) * static_cast<double>(shape.head_dim)),
        ffn(static_cast<double>(shape.fc1_size())),
        vocabulary(static_cast<double>(shape.padded_vocabulary(layout.weight_shards()))),
        ends(2 * vocabulary + (shape.attends() ? input : input * ffn / hidden + ffn)),
        sequence(static_cast<double>(shape.sequence)),
        tokens(static_cast<double>(module.rows_per_sample()) * static_cast<double>(s.batch.micro)),
        scores(shape.fused_attention ? 0 : static_cast<double>(shape.heads) * sequence),
        micro_batches(static_cast<double>(s.batch.global) / (static_cast<double>(s.batch.micro) * layout.dp)) {}
};

// What a step takes at least when every op runs at the peak of its device and nothing is repeated.
double least_compute_s(const Sizes& n, const DeviceModel& device) {
  const double flops = 2 * n.tokens * n.micro_batches * n.parameters() / (n.tp * n.replicas * n.stages);
  return flops / std::max(device.peak_flops_per_s, 1.0);
}

// Every gradient crosses the slowest link, and every micro-batch's hidden states do in every layer.
double transfer_s(const Sizes& n, const Cluster& cluster) {
  const double bytes = 8 * (n.parameters() / (n.tp * n.stages) + n.layer_passes() * n.tokens * n.hidden);
  const double slowest = std::min({cluster.node.device.memory_bytes_per_s, cluster.node.device.host_link_bytes_per_s,
                                   cluster.node.link_bytes_per_s, cluster.nic_peak_bytes_per_s()});
  return bytes / slowest;
}

}  // namespace

void check_limits(const Scenario& s, const Module& module, const ModuleLayout& layout, const ReportAt& report) {
  const Sizes n(s, module, layout);
  if (s.cluster.ranks() > most_ranks)
    report("/cluster/nodes", fmt::format("gives {} ranks (at most {})", s.cluster.ranks(), most_ranks));
  if (n.parameters() > most_parameters)
    report("/model", fmt::format("the module has {:.3g} parameters (at most {:.3g})", n.parameters(), most_parameters));
  if (n.layer_passes() > most_layer_passes) {
    report("/batch/global", fmt::format("{:.0f} micro-batches through {:.4g} layers of a rank exceed {:.0f} passes",
                                        n.micro_batches, n.layers / n.stages, most_layer_passes));
  }
  // 64 tensors of 4 bytes per element and layer pass bound what a rank can ever hold.
  if (n.largest_tensor() * 4 * 64 * std::max(1.0, n.layer_passes()) > most_bytes)
    report("/batch/micro", fmt::format("a tensor of a micro-batch has {:.3g} elements, too many to count its bytes",
                                       n.largest_tensor()));
  const double fixed_s =
      s.cost.kind == CostKind::fixed
          ? (n.micro_batches + n.stages) * (s.cost.forward_s + s.cost.backward_data_s + s.cost.backward_weight_s)
          : 0;
  if (fixed_s > longest_step_s)
    report("/cost", fmt::format("a step takes {:.3g} s (at most {:.0f})", fixed_s, longest_step_s));
  const double least_s = std::max(least_compute_s(n, s.cluster.node.device), transfer_s(n, s.cluster));
  if (least_s > longest_step_s)
    report("/cluster/node", fmt::format("is too slow for the model: a step would take about {:.3g} s (at most {:.0f})",
                                        least_s, longest_step_s));
}

}  // namespace meshweave
