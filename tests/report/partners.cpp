#include "sim/report/partners.h"

#include <catch2/catch.hpp>

#include "tests/report/finished_run.h"

using namespace meshweave;
using namespace meshweave::testing;

TEST_CASE("The other side of a communication leads back to it") {
  const FinishedRun run(small_h100_scenario(R"({ "tp": 2, "pp": 4, "dp": 2, "zero": 1 })"));
  const Partners partners(run.program);
  std::size_t found = 0;
  for (int rank = 0; rank < run.program.ranks(); ++rank) {
    const Body& body = run.program.bodies[run.program.body_of_rank[static_cast<std::size_t>(rank)]];
    for (std::uint32_t op = 0; op < body.ops.size(); ++op) {
      const OpSpec& spec = run.program.spec(body.ops[op]);
      std::vector<int> others;
      if (is_collective(spec.kind)) {
        const Communicators::Of& group = run.communicators.by_group[spec.group];
        for (const int member : group.of(group.instance_of[static_cast<std::size_t>(rank)])) others.push_back(member);
      }
      for (const Message& m : run.program.messages(body, body.ops[op])) {
        others.push_back(run.program.peer_rank(rank, m.peer));
      }
      for (const int other : others) {
        const std::uint32_t there = partners.op_at_peer(rank, op, other);
        REQUIRE(there != no_op);
        CHECK(partners.op_at_peer(other, there, rank) == op);
        ++found;
      }
    }
  }
  CHECK(found > 0);
}
