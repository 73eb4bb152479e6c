// The work of attention under shards of the sequence, against a count of the visible pairs one by one.
#include "sim/lower/context_parallel.h"

#include <catch2/catch.hpp>
#include <map>

#include "sim/lower/lower.h"
#include "sim/program/geometry.h"
#include "sim/program/work.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;
using testing::DenseOptions;

namespace {

constexpr std::int64_t sequence = 512;

DenseOptions sharded(ContextKind kind, Partition partition) {
  DenseOptions o;
  o.sequence = sequence;
  o.cp.degree = 4;
  o.cp.kind = kind;
  o.cp.partition = partition;
  o.pass = Pass::forward;
  return o;
}

struct RankWork {
  double pairs = 0;  // counted one by one
  double share = 0;  // what the cost of the ops assumes, in pairs
};

// Visible (query, key) pairs of one head that the rank computes in one layer.
RankWork work_of_rank(const Program& program, int rank) {
  RankWork work;
  const Body& body = program.bodies[program.body_of_rank[static_cast<std::size_t>(rank)]];
  for (const Op& op : body.ops) {
    if (program.spec(op).kind != OpKind::attention || op.layer != 0) continue;
    const auto reads = program.reads(body, op);
    const Geometry q = geometry_of(program, body, rank, reads[0]), k = geometry_of(program, body, rank, reads[1]);
    for (std::int64_t i = 0; i < q.spec->dimensions[0].size; ++i) {
      for (std::int64_t j = 0; j < k.spec->dimensions[0].size; ++j) work.pairs += k.whole_row(j) <= q.whole_row(i);
    }
    const Work w = meshweave::work_of(program, program.spec(op));
    work.share += w.visible * static_cast<double>(w.q_length) * static_cast<double>(w.kv_length);
  }
  return work;
}

}  // namespace

TEST_CASE("Under a causal mask zigzag shards work alike within 1 %, contiguous ones do not") {
  for (const ContextKind kind : {ContextKind::all_gather, ContextKind::ring}) {
    for (const Partition partition : {Partition::zigzag, Partition::contiguous}) {
      const Scenario scenario = testing::dense_scenario(sharded(kind, partition));
      const Program program = lower(scenario, make_plan(scenario));
      for (int rank = 0; rank < 4; ++rank) {
        CAPTURE(name_of(kind), name_of(partition), rank);
        const RankWork work = work_of_rank(program, rank);
        const double all = static_cast<double>(sequence) * sequence;
        // Zigzag: an eighth of all pairs each. Contiguous: (rank + ½)/4 of the quarter that the queries could see.
        const double expected = partition == Partition::zigzag ? all / 8 : (rank + 0.5) / 4 * all / 4;
        CHECK(work.pairs == Approx(expected).epsilon(0.01));
        CHECK(work.share == Approx(expected).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("Zigzag ranks share one body, contiguous ones have their own where the mask is causal") {
  const auto bodies = [](Partition partition, AttentionMask mask) {
    Scenario scenario = testing::dense_scenario(sharded(ContextKind::ring, partition));
    scenario.model[0].shape.mask = mask;
    return lower(scenario, make_plan(scenario)).bodies.size();
  };
  CHECK(bodies(Partition::zigzag, AttentionMask::causal) == 1);
  CHECK(bodies(Partition::contiguous, AttentionMask::causal) == 4);
  CHECK(bodies(Partition::contiguous, AttentionMask::full) == 1);
}
