// Every shipped entry reads, says where its numbers come from, and can stand in a scenario.
#include "sim/scenario/catalog.h"

#include <catch2/catch.hpp>

#include "sim/base/error.h"
#include "sim/scenario/reader.h"
#include "sim/scenario/zoo.h"

using namespace meshweave;

TEST_CASE("Every shipped entry reads and names its source") {
  const CatalogNames names = list_catalog();
  CHECK_FALSE(names.models.empty());
  for (const std::string& name : names.models) CHECK_FALSE(read_zoo(name).source.empty());
  for (const std::string& name : names.devices) CHECK_FALSE(read_device(name).source.empty());
  for (const std::string& name : names.nodes) CHECK_FALSE(read_node(name).source.empty());
  for (const std::string& name : names.fabrics) CHECK_FALSE(read_fabric(name).source.empty());
}

TEST_CASE("An entry carries its name") {
  CHECK(read_node("hgx-h100").name == "hgx-h100");
  CHECK(read_node("hgx-h100").device.name == "h100-sxm");
}

TEST_CASE("An unknown entry is refused with the nearest name") {
  CHECK_THROWS_WITH(
      read_node("hgx-h10"),
      "error: there is no node \"hgx-h10\" in topologies/catalog/nodes\n  hint: did you mean \"hgx-h100\"?\n");
}
