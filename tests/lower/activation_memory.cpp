// Activation memory of a layer: what the forward leaves for the backward, against the formulas of Korthikanti et al.
// (2205.05198, table 2).
#include <catch2/catch.hpp>

#include "sim/lower/lower.h"
#include "sim/program/liveness.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

constexpr std::int64_t s = 32, b = 2, h = 64, a = 8;

DenseOptions options(int tp, bool sequence_parallel, Recompute recompute, bool fused) {
  DenseOptions o;
  o.tp = tp;
  o.sequence_parallel = sequence_parallel;
  o.recompute = recompute;
  o.fused_attention = fused;
  o.layers_per_stage = 3;
  o.micro = b;
  o.dropout = 0.1;
  o.sequence = s;
  o.hidden = h;
  o.heads = o.kv_heads = a;
  return o;
}

// Bytes of layer 1 (of 0, 1, 2) that are alive when the first op of the backward starts. The layer's output, saved
// as the input of layer 2, stands for its input.
std::int64_t saved_bytes(const DenseOptions& o) {
  const Scenario scenario = dense_scenario(o);
  const Program program = lower(scenario, make_plan(scenario));
  const Body& body = program.bodies[0];
  const Liveness liveness = derive_liveness(program, body, derive_waits(program, body));
  std::size_t first_backward = 0;
  while (program.spec(body.ops[first_backward]).phase != Phase::backward_data) ++first_backward;
  std::vector<bool> counted(body.storages.size(), false);
  std::int64_t bytes = 0;
  for (const Tensor& tensor : body.tensors) {
    const StorageLife& life = liveness.lives[tensor.storage];
    if (tensor.layer != 1 || body.storages[tensor.storage].persistent || counted[tensor.storage]) continue;
    if (life.born >= first_backward || life.dies <= first_backward) continue;
    counted[tensor.storage] = true;
    bytes += body.storages[tensor.storage].bytes;
  }
  return bytes;
}

// Mean and reciprocal deviation of two norms, fp32, which the formulas neglect: 2·2·4 bytes per token of the rank.
std::int64_t statistics(int tp, bool sequence_parallel) { return 16 * s * b / (sequence_parallel ? tp : 1); }

}  // namespace

TEST_CASE("activation memory without recomputation is sbh(34 + 5as/h)") {
  // x 2, norm1 2, q k v 6, softmax 2as²b, its mask as²b, dropped 2as²b, context 2, mask 1, residual 2, norm2 2,
  // fc1 8, activation 8, mask 1: 34 sbh + 5 as²b.
  CHECK(saved_bytes(options(1, false, Recompute::none, false)) ==
        s * b * h * 34 + 5 * a * s * s * b + statistics(1, false));
}

TEST_CASE("tensor parallelism leaves 10 sbh whole: sbh(10 + 24/t + 5as/ht)") {
  for (int t : {2, 4}) {
    CHECK(saved_bytes(options(t, false, Recompute::none, false)) ==
          s * b * h * 10 + s * b * h * 24 / t + 5 * a * s * s * b / t + statistics(t, false));
  }
}

TEST_CASE("sequence parallelism divides all of it: sbh/t (34 + 5as/h)") {
  for (int t : {2, 4}) {
    CHECK(saved_bytes(options(t, true, Recompute::none, false)) ==
          s * b * h * 34 / t + 5 * a * s * s * b / t + statistics(t, true));
  }
}

TEST_CASE("selective recomputation drops the attention core: sbh(10 + 24/t), 34 sbh/t with sequence parallelism") {
  CHECK(saved_bytes(options(2, false, Recompute::selective, false)) ==
        s * b * h * 10 + s * b * h * 24 / 2 + statistics(2, false));
  CHECK(saved_bytes(options(4, true, Recompute::selective, false)) == s * b * h * 34 / 4 + statistics(4, true));
}

TEST_CASE("full recomputation keeps the layer's input: 2 sbh") {
  CHECK(saved_bytes(options(1, false, Recompute::full, false)) == 2 * s * b * h);
  CHECK(saved_bytes(options(2, false, Recompute::full, false)) == 2 * s * b * h);
  // Under sequence parallelism the input is a sequence share.
  CHECK(saved_bytes(options(2, true, Recompute::full, false)) == 2 * s * b * h / 2);
}

TEST_CASE("fused attention keeps a log-sum-exp per head and token in place of the scores") {
  const std::int64_t lse = 4 * s * b * a;
  CHECK(saved_bytes(options(1, false, Recompute::none, true)) == s * b * h * 34 + lse + statistics(1, false));
  CHECK(saved_bytes(options(1, false, Recompute::selective, true)) == s * b * h * 34 + statistics(1, false));
}
