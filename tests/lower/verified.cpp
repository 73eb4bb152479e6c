// The verifier accepts what the lowering makes.
#include <catch2/catch.hpp>

#include "sim/base/error.h"
#include "sim/lower/lower.h"
#include "sim/program/verify.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

void check_verified(const DenseOptions& options) {
  const Scenario scenario = dense_scenario(options);
  for (const Violation& violation : verify(lower(scenario, make_plan(scenario)))) FAIL_CHECK(violation.text);
}

}  // namespace

TEST_CASE("a tied table is summed behind the last exchange") {
  // The first stage takes part only after it received the last gradient. Were the sum issued before the last stage
  // sends that gradient, ranks that run their communications one at a time would wait for each other.
  for (int zero : {0, 1}) {
    DenseOptions o;
    o.pp = 2;
    o.dp = 2;
    o.micro_batches = 4;
    o.zero = zero;
    o.tied = true;
    check_verified(o);
    o.vpp = 2;
    check_verified(o);
  }
}

TEST_CASE("every combination of layout, schedule and recomputation is verified") {
  for (int tp : {1, 2}) {
    for (bool sequence_parallel : {false, true}) {
      for (int pp : {1, 2, 4}) {
        for (int vpp : {1, 2}) {
          for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
            for (bool tied : {false, true}) {
              for (bool defer : {false, true}) {
                if (vpp > 1 && pp == 1) continue;
                DenseOptions o;
                o.tp = tp;
                o.sequence_parallel = sequence_parallel;
                o.pp = pp;
                o.vpp = vpp;
                o.dp = 2;
                o.zero = 1;
                o.micro_batches = 2 * pp;
                o.recompute = recompute;
                o.tied = tied;
                o.defer_weight_gradients = defer;
                o.fused_attention = !defer;
                o.dropout = defer ? 0.1 : 0;
                check_verified(o);
                if (!sequence_parallel) continue;
                o.tp_chunks = 4;
                o.depth = 2;
                check_verified(o);
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("GPipe, plain data parallelism, optimizer instances and the forward pass are verified") {
  DenseOptions o;
  o.pp = 2;
  o.micro_batches = 3;
  o.schedule = ScheduleKind::gpipe;
  check_verified(o);
  o.dp = 4;
  o.zero = 1;
  o.optimizer_instances = 2;
  check_verified(o);
  o.grad_reduce = o.param_gather = false;
  check_verified(o);
  o.pass = Pass::forward;
  check_verified(o);
}

TEST_CASE("every sharding of the sequence is verified, with and without its overlap") {
  using enum ContextKind;
  for (const ContextKind kind : {ring, all_gather, ulysses, ulysses_ring}) {
    for (const Partition partition : {Partition::zigzag, Partition::contiguous}) {
      for (const bool overlap : {false, true}) {
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          for (const Pass pass : {Pass::train, Pass::forward}) {
            DenseOptions o;
            o.pp = 2, o.tp = 2, o.dp = 2, o.zero = 1, o.micro_batches = 4;
            o.sequence_parallel = true;
            o.recompute = recompute;
            o.pass = pass;
            DenseOptions folded = o;
            o.cp.degree = 4;
            o.cp.kind = kind;
            o.cp.partition = partition;
            o.cp.ulysses = kind == ulysses ? 4 : kind == ulysses_ring ? 2 : 1;
            o.cp_overlap = overlap;
            check_verified(o);
            if (kind != ring) continue;
            folded.tp = 1, folded.sequence_parallel = false;
            folded.tsp.degree = 4;
            folded.tsp.partition = partition;
            folded.tsp.prefetch = overlap ? 2 : 0;
            check_verified(folded);
          }
        }
      }
    }
  }
}

TEST_CASE("an interrupt ends lowering and verifying") {
  const Scenario scenario = dense_scenario({});
  const InterruptFlag interrupt{1};
  CHECK_THROWS_AS(lower(scenario, make_plan(scenario), &interrupt), Interrupted);
  const Program program = lower(scenario, make_plan(scenario));
  CHECK_THROWS_AS(verify(program, 20, nullptr, &interrupt), Interrupted);
}
