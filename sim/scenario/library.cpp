#include "sim/scenario/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#ifndef MESHWEAVE_DATA_DIR
#error "MESHWEAVE_DATA_DIR must name the folder of the shipped models and topologies"
#endif

namespace meshweave {
namespace {

std::filesystem::path data_folder() {
  const char* folder = std::getenv("MESHWEAVE_DATA");
  return folder && *folder ? folder : MESHWEAVE_DATA_DIR;
}

}  // namespace

std::string_view noun_of(Library library) {
  switch (library) {
    case Library::models: return "model";
    case Library::devices: return "device";
    case Library::nodes: return "node";
    case Library::fabrics: return "fabric";
  }
  bug("unknown library");
}

std::string_view folder_of(Library library) {
  switch (library) {
    case Library::models: return "models/zoo";
    case Library::devices: return "topologies/catalog/devices";
    case Library::nodes: return "topologies/catalog/nodes";
    case Library::fabrics: return "topologies/catalog/fabrics";
  }
  bug("unknown library");
}

std::vector<std::string> names_in(Library library) {
  std::vector<std::string> names;
  std::error_code ignored;  // a missing folder holds no entries
  for (const auto& file : std::filesystem::directory_iterator(data_folder() / folder_of(library), ignored))
    if (file.path().extension() == ".json") names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string path_of(Library library, std::string_view name) {
  return (data_folder() / folder_of(library) / fmt::format("{}.json", name)).string();
}

CatalogNames list_catalog() {
  return {names_in(Library::models), names_in(Library::devices), names_in(Library::nodes), names_in(Library::fabrics)};
}

}  // namespace meshweave
