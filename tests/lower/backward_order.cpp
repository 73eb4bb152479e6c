// The order of a layer's backward: its forward walked backwards, each op's adjoint in its place; a weight
// gradient stands behind the communication of its data gradient, which runs meanwhile.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sim/lower/lower.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

// "label" of a data gradient, "label W" of a weight gradient, "label again" of a re-emitted forward op.
std::vector<std::string> backward_of_layer(const DenseOptions& o) {
  const Scenario scenario = dense_scenario(o);
  const Program program = lower(scenario, make_plan(scenario));
  const Body& body = program.bodies[0];
  std::vector<std::string> labels;
  for (const Op& op : body.ops) {
    const OpSpec& spec = program.spec(op);
    if (op.layer != 0 || spec.phase == Phase::forward) continue;
    const char* end = spec.phase == Phase::backward_weight ? " W" : spec.phase == Phase::recompute ? " again" : "";
    labels.push_back(spec.label + end);
  }
  return labels;
}

using Labels = std::vector<std::string>;

}  // namespace

TEST_CASE("backward of a layer under tensor parallelism") {
  // Forward: norm1, qkv, attention, projection, its all-reduce, residual (+ bias); norm2, fc1, activation,
  // fc2, its all-reduce, residual (+ bias). An all-reduce is its own identity backwards; the column-parallel
  // qkv and fc1 leave partial input gradients, which are summed, while their own weight gradients are
  // computed. A value that two ops read (a residual's input) has the sum of two gradients.
  DenseOptions o;
  o.tp = 2;
  CHECK(backward_of_layer(o) == Labels{"mlp residual bias W",
                                       "fc2",
                                       "fc2 W",
                                       "activation",
                                       "fc1",
                                       "norm2 gradient all-reduce",
                                       "fc1 W",
                                       "fc1 bias W",
                                       "norm2",
                                       "norm2 W",
                                       "attention output gradient",
                                       "attention residual bias W",
                                       "projection",
                                       "projection W",
                                       "attention",
                                       "qkv",
                                       "norm1 gradient all-reduce",
                                       "qkv W",
                                       "qkv bias W",
                                       "norm1",
                                       "norm1 W",
                                       "hidden gradient"});
}

TEST_CASE("backward of a layer under sequence parallelism") {
  // The adjoint of a reduce-scatter is an all-gather and the reverse. What a gather gave is not saved: it is
  // gathered again for the weight gradient.
  DenseOptions o;
  o.tp = 2;
  o.sequence_parallel = true;
  CHECK(backward_of_layer(o) == Labels{"fc2 gradient all-gather",
                                       "mlp residual bias W",
                                       "fc2",
                                       "fc2 W",
                                       "activation",
                                       "norm2 all-gather again",
                                       "fc1",
                                       "norm2 gradient reduce-scatter",
                                       "fc1 W",
                                       "fc1 bias W",
                                       "norm2",
                                       "norm2 W",
                                       "attention output gradient",
                                       "projection gradient all-gather",
                                       "attention residual bias W",
                                       "projection",
                                       "projection W",
                                       "attention",
                                       "norm1 all-gather again",
                                       "qkv",
                                       "norm1 gradient reduce-scatter",
                                       "qkv W",
                                       "qkv bias W",
                                       "norm1",
                                       "norm1 W",
                                       "hidden gradient"});
}

TEST_CASE("deferred weight gradients: the whole data gradient first, then all weight gradients") {
  DenseOptions o;
  o.tp = 2;
  o.defer_weight_gradients = true;
  CHECK(backward_of_layer(o) == Labels{"fc2",
                                       "activation",
                                       "fc1",
                                       "norm2 gradient all-reduce",
                                       "norm2",
                                       "attention output gradient",
                                       "projection",
                                       "attention",
                                       "qkv",
                                       "norm1 gradient all-reduce",
                                       "norm1",
                                       "hidden gradient",
                                       "mlp residual bias W",
                                       "fc2 W",
                                       "fc1 W",
                                       "fc1 bias W",
                                       "norm2 W",
                                       "attention residual bias W",
                                       "projection W",
                                       "qkv W",
                                       "qkv bias W",
                                       "norm1 W"});
}
