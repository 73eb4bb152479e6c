// The facts by which a user chooses among the shipped entries, as JSON. Keys that carry a unit end in it:
//   { "name": "h100-sxm", "peak_flops_per_s": 989.4e12, "memory_bytes": 84932978278, … }
#pragma once

#include <string_view>

#include "sim/base/json_text.h"

namespace meshweave {

// Each writes one object for the entry `name`. Throws InputError when the entry is a bad one.
void write_model_facts(JsonText& out, std::string_view name);
void write_device_facts(JsonText& out, std::string_view name);
void write_node_facts(JsonText& out, std::string_view name);
void write_fabric_facts(JsonText& out, std::string_view name);

}  // namespace meshweave
