// The model zoo: shapes of modules by name, and the fields that describe a shape.
#pragma once

#include <string_view>

#include "models/transformer.h"
#include "sim/scenario/fields.h"

namespace meshweave {

void shape_fields(Fields& fields, TransformerShape& shape);
// Fills what follows from other fields of the shape: kv_heads, head_dim, ffn, max_positions. The width of a projector
// follows from the graph.
void fill_shape(TransformerShape& shape);

// The entry models/zoo/NAME.json with every default filled in. Throws InputError when there is none.
TransformerShape read_zoo(std::string_view name);

}  // namespace meshweave
