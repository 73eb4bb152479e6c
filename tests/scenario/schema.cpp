// The shipped schema is the one that the reader's description gives. After a change of keys or entries,
// MESHWEAVE_ACCEPT=1 build/dev/tests/test_scenario writes it anew. tests/scenario/schema.py holds it against files.
#include <catch2/catch.hpp>

#include "sim/scenario/json_document.h"
#include "sim/scenario/reader.h"
#include "tests/scenario/test_library.h"

using namespace meshweave;

TEST_CASE("The shipped schema is up to date") {
  const std::string path = MESHWEAVE_SOURCE_DIR "/scenarios/schema/scenario.schema.json";
  const std::string schema = scenario_schema();
  JsonError error;
  CHECK(parse_json(schema, error));
  if (accepts()) std::ofstream(path, std::ios::binary) << schema;
  CHECK(read_file(path) == schema);
}
