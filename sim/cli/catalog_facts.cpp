#include "sim/cli/catalog_facts.h"

#include <cmath>

#include "sim/scenario/catalog.h"
#include "sim/scenario/zoo.h"

namespace meshweave {
namespace {

// Whole numbers that quantities with units give as doubles.
void whole(JsonText& out, std::string_view key, double value) { out.field(key, std::int64_t{std::llround(value)}); }

}  // namespace

void write_model_facts(JsonText& out, std::string_view name) {
  const TransformerShape shape = read_zoo(name);
  out.object();
  out.field("name", name);
  out.field("kind", name_of(shape.kind));
  if (shape.attends()) {  // the sizes of a projector are those of the modules around it
    out.field("parameters", parameter_count(shape, shape.vocabulary));
    out.field("layers", shape.layers);
    out.field("hidden", shape.hidden);
    out.field("heads", shape.heads);
    out.field("kv_heads", shape.kv_heads);
    out.field("head_dim", shape.head_dim);
    out.field("ffn", shape.ffn);
  }
  if (shape.kind == ModuleKind::language) {
    out.field("vocabulary", shape.vocabulary);
    out.field("sequence", shape.sequence);
  }
  if (shape.kind == ModuleKind::encoder) {
    out.field("input_width", shape.input_width);
    out.field("item_tokens", shape.sequence);
  }
  out.field("source", shape.source);
  out.end();
}

void write_device_facts(JsonText& out, std::string_view name) {
  const DeviceModel device = read_device(name);
  out.object();
  out.field("name", name);
  whole(out, "peak_flops_per_s", device.peak_flops_per_s);
  whole(out, "peak_fp32_flops_per_s", device.peak_fp32_flops_per_s);
  whole(out, "memory_bytes", device.memory_bytes);
  whole(out, "memory_bandwidth_bytes_per_s", device.memory_bytes_per_s);
  whole(out, "host_link_bandwidth_bytes_per_s", device.host_link_bytes_per_s);
  out.field("compute_units", device.compute_units);
  out.field("source", device.source);
  out.end();
}

void write_node_facts(JsonText& out, std::string_view name) {
  const NodeModel node = read_node(name);
  out.object();
  out.field("name", name);
  out.field("device", node.device.name);
  out.field("gpus", node.gpus);
  out.field("fabric", name_of(node.fabric));
  whole(out, "link_bandwidth_bytes_per_s", node.link_bytes_per_s);
  whole(out, "nic_bandwidth_bytes_per_s", node.nic_bytes_per_s);
  out.field("source", node.source);
  out.end();
}

void write_fabric_facts(JsonText& out, std::string_view name) {
  const FabricModel fabric = read_fabric(name);
  out.object();
  out.field("name", name);
  if (fabric.port_bytes_per_s > 0) {
    whole(out, "port_bandwidth_bytes_per_s", fabric.port_bytes_per_s);
  } else {
    out.key("port_bandwidth_bytes_per_s"), out.null();  // as fast as the NIC
  }
  out.field("oversubscription", fabric.oversubscription);
  out.field("nodes_per_leaf", fabric.nodes_per_leaf);
  out.field("cross_rail", fabric.cross_rail);
  out.field("source", fabric.source);
  out.end();
}

}  // namespace meshweave
