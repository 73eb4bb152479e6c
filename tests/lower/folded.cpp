// What the folded axis lowers to.
#include "sim/lower/folded.h"

#include <catch2/catch.hpp>
#include <set>

#include "sim/lower/lower.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;
using namespace meshweave::testing;

TEST_CASE("a striped ring has as many stripes as the mesh holds rings without a link in common") {
  // The n · (n − 1) links of n GPUs are n − 1 rings of n links each, but n − 2 for 4 and 6 (Tillson 1980).
  const std::pair<int, int> expected[] = {{4, 2}, {8, 7}, {512, 511}};
  for (const auto& [gpus, rings] : expected) {
    CAPTURE(gpus);
    DenseOptions o;
    o.tsp.degree = gpus;
    o.tsp.ring = RingKind::striped;
    o.hidden = o.heads = o.kv_heads = o.ffn = o.vocabulary = gpus;
    o.sequence = 2 * gpus;
    o.pass = Pass::forward;
    Scenario scenario = dense_scenario(o);
    scenario.cluster.node.gpus = gpus;
    scenario.cluster.node.fabric = NodeFabric::mesh;
    scenario.cluster.nodes = 1;
    const Program program = lower(scenario, make_plan(scenario));
    std::set<int> stripes;
    for (const OpSpec& spec : program.op_specs) {
      if (spec.kind == OpKind::point_to_point) stripes.insert(spec.attributes.stripes);
    }
    CHECK(stripes == std::set<int>{rings});
  }
}
