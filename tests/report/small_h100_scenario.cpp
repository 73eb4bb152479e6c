#include "sim/scenario/reader.h"
#include "tests/report/finished_run.h"

namespace meshweave::testing {

Scenario small_h100_scenario(const std::string& layout, const std::string& more) {
  const std::string text = R"({
    "name": "small",
    "cluster": { "node": "hgx-h100", "nodes": 2, "fabric": "rail-400g" },
    "model": { "language": { "hidden": 1024, "layers": 8, "heads": 16, "vocabulary": 32000, "sequence": 1024 } },
    "batch": { "global": 32, "micro": 1 },
    "layout": { "language": )" +
                           layout + " }" + more + "}";
  return parse_scenario(text, "small.json");
}

}  // namespace meshweave::testing
