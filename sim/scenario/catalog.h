// The catalog of hardware: the fields of devices, nodes and fabrics, and its entries by name.
//
// Keys are the names of the struct fields with the unit left out: `memory_bytes_per_s` is "memory_bandwidth".
#pragma once

#include <string_view>

#include "sim/scenario/fields.h"
#include "topologies/cluster.h"

namespace meshweave {

void device_fields(Fields& fields, DeviceModel& device);
void node_fields(Fields& fields, NodeModel& node);
void fabric_fields(Fields& fields, FabricModel& fabric);

std::string_view name_of(NodeFabric);

// Each throws InputError when the catalog has no such entry.
DeviceModel read_device(std::string_view name);
NodeModel read_node(std::string_view name);
FabricModel read_fabric(std::string_view name);

}  // namespace meshweave
