// Communicated bytes of the lowered program against closed forms.
#include <catch2/catch.hpp>
#include <map>

#include "sim/lower/lower.h"
#include "sim/program/work.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

Program lowered(const DenseOptions& o) {
  const Scenario scenario = dense_scenario(o);
  return lower(scenario, make_plan(scenario));
}

// Bytes of the larger side of every collective of `kind` and `phases` in layer `layer` (−1: outside layers).
std::int64_t volume(const Program& program, OpKind kind, int layer, std::initializer_list<Phase> phases,
                    std::size_t body = 0) {
  std::int64_t bytes = 0;
  for (const Op& op : program.bodies[body].ops) {
    const OpSpec& spec = program.spec(op);
    if (spec.kind != kind || op.layer != layer) continue;
    if (std::find(phases.begin(), phases.end(), spec.phase) == phases.end()) continue;
    bytes += std::max(input_bytes(program, spec), output_bytes(program, spec));
  }
  return bytes;
}

}  // namespace

TEST_CASE("tensor parallelism all-reduces 2·sbh activations forward and 2·sbh backward per layer") {
  DenseOptions o;
  o.tp = 4;
  o.layers_per_stage = 2;
  o.micro = 2;
  const Program program = lowered(o);
  const std::int64_t x = 2 * o.sequence * o.micro * o.hidden;  // bytes of one activation, bf16
  CHECK(volume(program, OpKind::all_reduce, 0, {Phase::forward}) == 2 * x);
  CHECK(volume(program, OpKind::all_reduce, 0, {Phase::backward_data}) == 2 * x);
}

TEST_CASE("sequence parallelism gathers and scatters the same bytes, and gathers again for the weight gradients") {
  DenseOptions o;
  o.tp = 4;
  o.sequence_parallel = true;
  o.layers_per_stage = 2;
  const Program program = lowered(o);
  const std::int64_t x = 2 * o.sequence * o.micro * o.hidden;
  // Forward: a gather before qkv and fc1, a scatter behind projection and fc2. Backward: their adjoints.
  CHECK(volume(program, OpKind::all_gather, 1, {Phase::forward}) == 2 * x);
  CHECK(volume(program, OpKind::reduce_scatter, 1, {Phase::forward}) == 2 * x);
  CHECK(volume(program, OpKind::all_gather, 1, {Phase::backward_data}) == 2 * x);
  CHECK(volume(program, OpKind::reduce_scatter, 1, {Phase::backward_data}) == 2 * x);
  CHECK(volume(program, OpKind::all_gather, 1, {Phase::recompute}) == 2 * x);
}

TEST_CASE("data parallelism reduces every parameter once in fp32 and ZeRO-1 scatters and gathers it") {
  DenseOptions o;
  o.dp = 4;
  o.layers_per_stage = 3;
  o.micro_batches = 3;
  const Scenario scenario = dense_scenario(o);
  const TransformerShape& shape = scenario.model[0].shape;
  const std::int64_t parameters = parameter_count(shape, shape.padded_vocabulary(1));
  const Program plain = lowered(o);
  // The loss all-reduce adds its 4 bytes.
  CHECK(volume(plain, OpKind::all_reduce, -1, {Phase::gradient_reduce}) == 4 * parameters + 4);
  o.zero = 1;
  const Program zero = lowered(o);
  CHECK(volume(zero, OpKind::reduce_scatter, -1, {Phase::gradient_reduce}) == 4 * parameters);
  CHECK(volume(zero, OpKind::all_gather, -1, {Phase::parameter_gather}) == 2 * parameters);
  CHECK(volume(zero, OpKind::all_reduce, -1, {Phase::gradient_reduce}) == 4);
}

TEST_CASE("optimizer instances reduce the shard over the instances behind the reduce-scatter") {
  DenseOptions o;
  o.dp = 4;
  o.zero = 1;
  o.optimizer_instances = 2;
  const Scenario scenario = dense_scenario(o);
  const TransformerShape& shape = scenario.model[0].shape;
  const std::int64_t parameters = parameter_count(shape, shape.padded_vocabulary(1));
  const Program program = lowered(o);
  CHECK(volume(program, OpKind::reduce_scatter, -1, {Phase::gradient_reduce}) == 4 * parameters);
  CHECK(volume(program, OpKind::all_reduce, -1, {Phase::gradient_reduce}) == 4 * parameters / 2 + 4);
}

TEST_CASE("a tied embedding is reduced between first and last stage") {
  DenseOptions o;
  o.pp = 3;
  o.tied = true;
  const Program program = lowered(o);
  // [1024 padded rows, 64] in fp32, on the first and the last stage only.
  const std::int64_t table = 4 * 1024 * 64;
  CHECK(volume(program, OpKind::all_reduce, -1, {Phase::gradient_reduce}, 0) == table);
  CHECK(volume(program, OpKind::all_reduce, -1, {Phase::gradient_reduce}, 1) == 0);
  CHECK(volume(program, OpKind::all_reduce, -1, {Phase::gradient_reduce}, 2) == table);
}

TEST_CASE("persistent memory: 18 bytes per parameter, 6 + 12/DP with ZeRO-1") {
  DenseOptions o;
  o.dp = 4;
  const auto state_bytes = [](const Program& program) {
    std::int64_t bytes = 0;
    for (const Storage& storage : program.bodies[0].storages) {
      if (storage.persistent && storage.category != Category::activations) bytes += storage.bytes;
    }
    return bytes;
  };
  const Scenario scenario = dense_scenario(o);
  const TransformerShape& shape = scenario.model[0].shape;
  const std::int64_t parameters = parameter_count(shape, shape.padded_vocabulary(1));
  // bf16 parameter 2, fp32 gradient 4, fp32 main parameter and two moments 12.
  CHECK(state_bytes(lowered(o)) == 18 * parameters);
  o.zero = 1;
  CHECK(state_bytes(lowered(o)) == 6 * parameters + 12 * parameters / 4);
}
