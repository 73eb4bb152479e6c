#include "sim/scenario/catalog.h"

#include "sim/scenario/field_reader.h"

namespace meshweave {
namespace {

using enum QuantityKind;

constexpr NumberRange share{0, 1, true};  // above 0, at most 1
constexpr NumberRange fraction{0, 1};
constexpr NumberRange some_bandwidth{1e6, 1e18};
constexpr NumberRange some_rate{1e9, 1e21};
constexpr NumberRange some_memory{1e6, 1e18};
constexpr NumberRange short_time{0, 1};  // latencies and overheads, in seconds

void tile_fields(Fields& f, MatmulTile& tile) {
  f.integer({"m", "rows of the tile", Need::required}, tile.m, {1, 1 << 16});
  f.integer({"n", "columns of the tile", Need::required}, tile.n, {1, 1 << 16});
  f.number({"efficiency", "share of the compute unit's peak", Need::required}, tile.efficiency, share);
}

void matmul_fields(Fields& f, MatmulModel& matmul) {
  f.list({"tiles", "tile shapes that the library may choose", Need::required}, matmul.tiles, tile_fields);
  f.number({"k_overhead", "extra depth per tile: prologue and epilogue"}, matmul.k_overhead, {0, 1e6});
  f.quantity({"split_k_overhead", "extra time of a product split over its depth"}, matmul.split_k_overhead_s, seconds,
             short_time);
  f.number({"wave_smoothing", "0: a partial last wave costs a whole one; 1: its share"}, matmul.wave_smoothing,
           fraction);
  f.number({"large_loss", "share of the rate lost per doubling of the work above large_flops"}, matmul.large_loss,
           fraction);
  f.number({"large_flops", "work above which the rate falls; 0: never"}, matmul.large_flops, {0, 1e30});
  f.text({"source", "what the constants were fitted on", Need::absent}, matmul.source);
}

void attention_efficiency_fields(Fields& f, AttentionModel::Efficiency& efficiency) {
  f.integer({"head_dim", "width of one head", Need::required}, efficiency.head_dim, {1, 1 << 16});
  f.number({"forward", "share of the peak", Need::required}, efficiency.forward, share);
  f.number({"backward", "share of the peak", Need::required}, efficiency.backward, share);
}

void attention_fields(Fields& f, AttentionModel& attention) {
  f.list({"efficiency", "by head dimension, ascending", Need::required}, attention.efficiency,
         attention_efficiency_fields);
  f.integer({"query_block", "query rows of one work item"}, attention.query_block, {1, 1 << 16});
  f.number({"forward_overhead_keys", "extra keys that an item costs"}, attention.forward_overhead_keys, {0, 1e9});
  f.number({"backward_overhead_keys", "extra keys that an item costs"}, attention.backward_overhead_keys, {0, 1e9});
  f.number({"tail", "items by which the slowest compute unit ends after the mean"}, attention.tail, {0, 1e6});
  f.number({"causal_extra_keys", "masked keys that a causal item visits"}, attention.causal_extra_keys, {0, 1e9});
  f.text({"source", "what the constants were fitted on", Need::absent}, attention.source);
}

void memory_fields(Fields& f, MemoryModel& memory) {
  f.number({"streaming", "operands of matmuls, copies, additions, casts, the loss, the optimizer", Need::required},
           memory.streaming, share);
  f.number({"norm", "normalisations", Need::required}, memory.norm, share);
  f.number({"norm_backward", "the backward of normalisations", Need::required}, memory.norm_backward, share);
  f.number({"elementwise", "activations, rotary embeddings, softmax, dropout", Need::required}, memory.elementwise,
           share);
  f.text({"source", "what the shares were fitted on", Need::absent}, memory.source);
}

void curve_fields(Fields& f, CollectiveCurve& curve) {
  using enum CollectiveAlgorithm;
  using enum CollectiveProtocol;
  f.choice({"algorithm", "of the communication library", Need::required}, curve.algorithm,
           {ring, tree, nvls, direct, p2p});
  f.choice({"protocol", "of the communication library", Need::required}, curve.protocol, {ll, ll128, simple});
  f.quantity({"base", "start-up time"}, curve.base_s, seconds, short_time);
  f.quantity({"intra_hop", "time per step inside a node"}, curve.intra_hop_s, seconds, short_time);
  f.quantity({"nic_hop", "time per step between nodes"}, curve.nic_hop_s, seconds, short_time);
  f.number({"intra_efficiency", "share of the link's peak that large messages reach"}, curve.intra_efficiency,
           {0, 4, true});
  f.number({"nic_efficiency", "the same of the NIC; 0: not used between nodes"}, curve.nic_efficiency, {0, 4});
  f.quantity({"pipeline", "message size at which filling the pipeline doubles the transfer's time"},
             curve.pipeline_bytes, bytes, {0, 1e15});
  f.integer({"least_nodes", "2: between nodes only"}, curve.least_nodes, {1, 2});
  f.integer({"least_members", "members per node from which the library picks it"}, curve.least_members, {1, 1 << 16});
}

void collective_fields(Fields& f, CollectiveModel& collectives) {
  f.list({"curves", "ways in which the library runs an operation", Need::required}, collectives.curves, curve_fields);
  f.text({"source", "what the constants were fitted on", Need::absent}, collectives.source);
}

// Reads one entry alone.
template <class T>
T read_catalog_entry(Library library, std::string_view name, void (*describe)(Fields&, T&)) {
  Reading reading;
  T value;
  FieldReader::read_entry(reading, library, name, [&](Fields& fields) { describe(fields, value); });
  reading.diagnostics.throw_if_any();
  value.name = name;
  return value;
}

}  // namespace

std::string_view name_of(NodeFabric fabric) { return fabric == NodeFabric::nvswitch ? "nvswitch" : "mesh"; }

void device_fields(Fields& f, DeviceModel& device) {
  f.text({"name", "what reports call the device", Need::absent}, device.name);
  f.text({"source", "where the numbers were published", Need::absent}, device.source);
  f.quantity({"memory", "what can be allocated", Need::required}, device.memory_bytes, bytes, some_memory);
  f.quantity({"framework_memory", "context, communicator buffers and allocator slack"}, device.framework_bytes, bytes,
             {0, 1e18});
  f.number({"memory_error", "stated relative error of a predicted peak"}, device.memory_error, {0, 0.999});
  f.quantity({"peak_flops", "dense BF16 rate", Need::required}, device.peak_flops_per_s, flops_per_second, some_rate);
  f.quantity({"peak_fp32_flops", "FP32 rate", Need::required}, device.peak_fp32_flops_per_s, flops_per_second,
             some_rate);
  f.integer({"compute_units", "SMs or CUs", Need::required}, device.compute_units, {1, 1 << 16});
  f.quantity({"memory_bandwidth", "peak of the device memory", Need::required}, device.memory_bytes_per_s,
             bytes_per_second, some_bandwidth);
  f.quantity({"kernel_floor", "shortest kernel"}, device.kernel_floor_s, seconds, short_time);
  f.quantity({"host_issue", "host time per op when launched eagerly"}, device.host_issue_s, seconds, short_time);
  f.number({"sustained_factor", "rate of compute-bound kernels under sustained load"}, device.sustained_factor, share);
  f.number({"communication_slowdown", "compute takes this much longer while a communication kernel is resident"},
           device.communication_slowdown, {1, 1000});
  f.quantity({"host_link_bandwidth", "one direction between device and host", Need::required},
             device.host_link_bytes_per_s, bytes_per_second, some_bandwidth);
  f.object({"matmul", "constants of the matmul model", Need::required},
           [&](Fields& g) { matmul_fields(g, device.matmul); });
  f.object({"attention", "constants of the attention model", Need::required},
           [&](Fields& g) { attention_fields(g, device.attention); });
  f.object({"memory_rates", "shares of the peak memory bandwidth", Need::required},
           [&](Fields& g) { memory_fields(g, device.memory); });
}

void node_fields(Fields& f, NodeModel& node) {
  f.text({"name", "what reports call the node", Need::absent}, node.name);
  f.text({"source", "where the numbers were published", Need::absent}, node.source);
  f.entry({"device", "the GPUs of the node", Need::required}, Library::devices, node.device.name,
          [&](Fields& g) { device_fields(g, node.device); });
  f.integer({"gpus", "GPUs per node"}, node.gpus, {1, 1024});
  f.choice({"fabric", "how the GPUs of the node are joined"}, node.fabric, {NodeFabric::nvswitch, NodeFabric::mesh});
  f.quantity({"link_bandwidth", "peak per direction: per GPU (nvswitch) or per pair (mesh)", Need::required},
             node.link_bytes_per_s, bytes_per_second, some_bandwidth);
  f.number({"link_efficiency", "achievable share"}, node.link_efficiency, share);
  f.quantity({"nic_bandwidth", "peak per direction of the NIC of each GPU", Need::required}, node.nic_bytes_per_s,
             bytes_per_second, some_bandwidth);
  f.number({"nic_efficiency", "achievable share"}, node.nic_efficiency, share);
  f.object({"collectives", "constants of the collective model", Need::required},
           [&](Fields& g) { collective_fields(g, node.collectives); });
}

void fabric_fields(Fields& f, FabricModel& fabric) {
  f.text({"name", "what reports call the fabric", Need::absent}, fabric.name);
  f.text({"source", "where the numbers were published", Need::absent}, fabric.source);
  f.quantity({"port_bandwidth", "per GPU and direction; 0: as fast as the NIC"}, fabric.port_bytes_per_s,
             bytes_per_second, {0, 1e18});
  f.number({"oversubscription", "NIC bandwidth of a leaf over that of its uplinks"}, fabric.oversubscription,
           {1, 1000});
  f.integer({"nodes_per_leaf", "nodes whose NICs of one rail share a leaf switch"}, fabric.nodes_per_leaf,
            {1, 1 << 20});
  f.flag({"cross_rail", "spines join the leaves of different rails"}, fabric.cross_rail);
  f.number({"many_node_loss", "share of the NIC's rate that a collective loses per doubling beyond 2 nodes"},
           fabric.many_node_loss, {0, 0.999});
  f.number({"many_node_floor", "but never below this share"}, fabric.many_node_floor, share);
}

DeviceModel read_device(std::string_view name) {
  return read_catalog_entry<DeviceModel>(Library::devices, name, device_fields);
}

NodeModel read_node(std::string_view name) { return read_catalog_entry<NodeModel>(Library::nodes, name, node_fields); }

FabricModel read_fabric(std::string_view name) {
  return read_catalog_entry<FabricModel>(Library::fabrics, name, fabric_fields);
}

}  // namespace meshweave
