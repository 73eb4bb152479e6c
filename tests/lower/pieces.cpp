// Tensor-parallel overlap: the program in pieces does the same work in the order that overlaps.
#include <catch2/catch.hpp>
#include <map>

#include "sim/lower/lower.h"
#include "sim/program/liveness.h"
#include "sim/program/work.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

DenseOptions sequence_parallel(Recompute recompute) {
  DenseOptions o;
  o.tp = 4;
  o.sequence_parallel = true;
  o.layers_per_stage = 2;
  o.recompute = recompute;
  return o;
}

Program lowered(const DenseOptions& o) {
  const Scenario scenario = dense_scenario(o);
  return lower(scenario, make_plan(scenario));
}

struct Totals {
  int ops = 0;
  double flops = 0;
  std::int64_t communicated = 0;
  bool operator==(const Totals&) const = default;
};

// By kind and phase.
std::map<std::pair<OpKind, Phase>, Totals> totals(const Program& program) {
  std::map<std::pair<OpKind, Phase>, Totals> result;
  for (const Op& op : program.bodies[0].ops) {
    const OpSpec& spec = program.spec(op);
    Totals& t = result[{spec.kind, spec.phase}];
    ++t.ops;
    t.flops += work_of(program, spec).flops;
    if (is_communication(spec.kind)) t.communicated += output_bytes(program, spec);
  }
  return result;
}

// "gather", "scatter", or the label of the op, of the layer's ops of a phase.
std::vector<std::string> sequence_of(const Program& program, Phase phase, int layer) {
  std::vector<std::string> result;
  for (const Op& op : program.bodies[0].ops) {
    const OpSpec& spec = program.spec(op);
    if (op.layer == layer && spec.phase == phase) result.push_back(spec.label);
  }
  return result;
}

}  // namespace

TEST_CASE("pieces do the work and send the bytes of the whole") {
  for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    DenseOptions o = sequence_parallel(recompute);
    const auto whole = totals(lowered(o));
    o.tp_chunks = 4;
    const auto in_pieces = totals(lowered(o));
    REQUIRE(whole.size() == in_pieces.size());
    for (const auto& [key, t] : whole) {
      INFO(name_of(key.first) << " " << name_of(key.second));
      CHECK(in_pieces.at(key).flops == t.flops);
      CHECK(in_pieces.at(key).communicated == t.communicated);
    }
    // Per layer and forward: gathers before qkv and fc1, scatters behind projection and fc2, four pieces each; so
    // 2 layers add 2·2·3 gathers. The head's gather and the embedding's scatter stay whole.
    CHECK(in_pieces.at({OpKind::all_gather, Phase::forward}).ops == 2 * 2 * 4 + 1);
    CHECK(in_pieces.at({OpKind::reduce_scatter, Phase::forward}).ops == 2 * 2 * 4 + 1);
    // Backward: the gathers of the gradients of projection and fc2 in pieces, and one of the embedding; the
    // scatters stay whole.
    CHECK(in_pieces.at({OpKind::all_gather, Phase::backward_data}).ops == 2 * 2 * 4 + 1);
    CHECK(in_pieces.at({OpKind::reduce_scatter, Phase::backward_data}).ops == 2 * 2 + 1);
    CHECK(in_pieces.at({OpKind::matmul, Phase::backward_weight}).ops == 2 * 4 + 1);
  }
}

TEST_CASE("all pieces are gathered ahead of the first matmul, and a scatter follows each") {
  DenseOptions o = sequence_parallel(Recompute::none);
  o.tp_chunks = 2;
  const Program program = lowered(o);
  CHECK(sequence_of(program, Phase::forward, 1) == std::vector<std::string>{"norm1",
                                                                            "norm1 all-gather",
                                                                            "norm1 all-gather",
                                                                            "qkv",
                                                                            "qkv",
                                                                            "attention",
                                                                            "projection",
                                                                            "projection reduce-scatter",
                                                                            "projection",
                                                                            "projection reduce-scatter",
                                                                            "attention residual",
                                                                            "norm2",
                                                                            "norm2 all-gather",
                                                                            "norm2 all-gather",
                                                                            "fc1",
                                                                            "fc1",
                                                                            "activation",
                                                                            "fc2",
                                                                            "fc2 reduce-scatter",
                                                                            "fc2",
                                                                            "fc2 reduce-scatter",
                                                                            "mlp residual"});
}

TEST_CASE("a piece has a run of every rank's share of the sequence") {
  // Sequence 32 over tp 4: shares of 8 rows, in 2 pieces of 4. A gathered piece has 4 runs of 4 rows.
  DenseOptions o = sequence_parallel(Recompute::none);
  o.tp_chunks = 2;
  const Program program = lowered(o);
  int gathers = 0;
  for (const Op& op : program.bodies[0].ops) {
    const OpSpec& spec = program.spec(op);
    if (spec.kind != OpKind::all_gather || spec.phase != Phase::forward || op.layer < 0) continue;
    const TensorSpec& share = program.tensor_specs[spec.reads[0]];
    const TensorSpec& whole = program.tensor_specs[spec.writes[0]];
    CHECK(share.dimensions[0].size == 4);
    CHECK(share.runs == 1);
    CHECK(whole.dimensions[0].size == 16);
    CHECK(whole.runs == 4);
    // Pieces follow each other in the storage of the whole.
    const Tensor& t = program.bodies[0].tensors[program.writes(program.bodies[0], op)[0]];
    CHECK(t.offset == (gathers++ % 2) * whole.bytes());
  }
  CHECK(gathers == 2 * 2 * 2);
}

TEST_CASE("one piece is the program without overlap, apart from gathers that move up") {
  DenseOptions o = sequence_parallel(Recompute::full);
  const auto whole = totals(lowered(o));
  o.tp_chunks = 1;
  CHECK(totals(lowered(o)) == whole);
}
