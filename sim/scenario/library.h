// The shipped collections of models, devices, nodes and fabrics: one JSON file per entry.
//
// They lie below the data folder: the one compiled in, or that of the environment variable MESHWEAVE_DATA.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario/fields.h"
#include "sim/scenario/input_file.h"

namespace meshweave {

// "model", "device", "node", "fabric".
std::string_view noun_of(Library library);
// "models/zoo", "topologies/catalog/devices", …, relative to the data folder.
std::string_view folder_of(Library library);
// The names of the entries, sorted.
std::vector<std::string> names_in(Library library);
// The entry's file, without content; `name` must be one of names_in().
std::string path_of(Library library, std::string_view name);

}  // namespace meshweave
