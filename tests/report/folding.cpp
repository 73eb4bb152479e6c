// Folding changes nothing but the time that a run takes: the same report and the same slices for the kept
// ranks, whatever the lowering. The classes are those that can be derived by hand.
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "sim/execute/perturbations.h"
#include "sim/report/report_json.h"
#include "sim/scenario/reader.h"
#include "tests/report/finished_run.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

std::string json_of(const FinishedRun& run) {
  JsonText out(2);
  out.object();
  write_report(out, run.view(), run.report);
  out.end();
  return out.take();
}

bool same_slice(const Slice& a, const Slice& b) {
  return a.start == b.start && a.transfer == b.transfer && a.end == b.end && a.cause_op == b.cause_op &&
         a.peer == b.peer && a.cause == b.cause && a.cause_previous_step == b.cause_previous_step;
}

bool same_use(const SpecUse& a, const SpecUse& b) {
  return a.spec == b.spec && a.compute_s == b.compute_s && a.transfer_s == b.transfer_s &&
         a.executions == b.executions && a.flops == b.flops;
}

bool same_breakdown(const Breakdown& a, const Breakdown& b) {
  return a.compute == b.compute && a.bubble == b.bubble && a.host == b.host && a.copy == b.copy &&
         a.exposed == b.exposed;
}

void check_folded(const Scenario& scenario, int classes) {
  const FinishedRun folded(scenario, true);
  const FinishedRun whole(scenario, false);
  CHECK(folded.classes.count() == classes);
  const bool same_report = json_of(folded) == json_of(whole);
  CHECK(same_report);
  const auto& uses = folded.report.uses;
  CHECK(std::equal(uses.begin(), uses.end(), whole.report.uses.begin(), whole.report.uses.end(), same_use));
  // Every rank has the breakdown of its class.
  for (std::size_t rank = 0; rank < whole.report.by_class.size(); ++rank) {
    CHECK(same_breakdown(folded.report.by_class[folded.classes.class_of[rank]], whole.report.by_class[rank]));
  }
  for (const RankTimeline& timeline : folded.replayed.timelines) {
    INFO("rank " << timeline.rank);
    const std::vector<Slice>& slices = whole.replayed.timelines[static_cast<std::size_t>(timeline.rank)].slices;
    CHECK(std::equal(timeline.slices.begin(), timeline.slices.end(), slices.begin(), slices.end(), same_slice));
  }
}

// The layout on two nodes of 8 H100s; 16 ranks.
Scenario on_h100(const DenseOptions& options) {
  static const Cluster cluster = small_h100_scenario(R"({ "dp": 16 })").cluster;
  Scenario s = dense_scenario(options);
  s.cluster = cluster;
  return s;
}

struct Degrees {
  int tp, pp, dp;
};

// Ranks of a stage are alike wherever every one has the same neighbours. All of these put the groups of a
// stage on the nodes in the same way: tensor-parallel groups inside a node, data-parallel ones all inside or
// all across.
constexpr Degrees degrees[] = {{1, 1, 16}, {2, 1, 8}, {8, 1, 2}, {1, 2, 8}, {4, 2, 2}, {8, 2, 1}, {2, 4, 2}, {1, 8, 2}};

DenseOptions options_of(const Degrees& d) {
  DenseOptions o;
  o.tp = d.tp;
  o.pp = d.pp;
  o.dp = d.dp;
  o.micro_batches = d.pp == 1 ? 2 : 2 * d.pp;
  return o;
}

template <class Check>
void for_each_layout(const Check& check) {
  for (const Degrees& d : degrees) {
    INFO("tp " << d.tp << ", pp " << d.pp << ", dp " << d.dp);
    check(options_of(d));
  }
}

// The classes are exactly the sets of ranks with equal keys.
template <class KeyOf>
void check_classes(const Program& program, const RankClasses& classes, const KeyOf& key_of) {
  const ProcessGrid& grid = program.grids[0];
  using Key = std::decay_t<decltype(key_of(0, 0, 0))>;
  std::map<Key, std::uint32_t> class_of_key;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    const Key key =
        key_of(grid.coordinate(rank, Axis::tp), grid.coordinate(rank, Axis::dp), grid.coordinate(rank, Axis::pp));
    const std::uint32_t c = classes.class_of[static_cast<std::size_t>(rank)];
    INFO("rank " << rank);
    CHECK(class_of_key.try_emplace(key, c).first->second == c);
  }
  CHECK(static_cast<int>(class_of_key.size()) == classes.count());
}

RankClasses folded(const Scenario& scenario, const Program& program) {
  return fold_ranks(program, perturbation_keys(scenario.perturb, scenario.cluster),
                    [&](std::span<const int> ranks) { return placement_signature(scenario.cluster, ranks); });
}

Perturbation slow_rank(int rank) {
  Perturbation p;
  p.index = rank;
  p.compute_time = 1.5;
  return p;
}

}  // namespace

TEST_CASE("Folding changes nothing: tensor, sequence, pipeline and data parallelism, ZeRO-1, recomputation") {
  for_each_layout([](DenseOptions o) {
    for (const bool sequence_parallel : {false, true}) {
      for (const int zero : {0, 1}) {
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          o.sequence_parallel = sequence_parallel && o.tp > 1;
          o.zero = zero;
          o.recompute = recompute;
          o.tied = zero == 0;  // a tied table is summed over first and last stage
          o.fused_attention = recompute != Recompute::selective;
          o.dropout = o.fused_attention ? 0 : 0.1;
          check_folded(on_h100(o), o.pp);
        }
      }
    }
  });
}

TEST_CASE("Folding changes nothing: schedules, held-back communication, the forward pass") {
  for_each_layout([](DenseOptions o) {
    o.zero = 1;
    if (o.pp > 1) {
      DenseOptions p = o;
      p.schedule = ScheduleKind::gpipe;
      check_folded(on_h100(p), o.pp);
      p = o;
      p.defer_weight_gradients = true;
      check_folded(on_h100(p), o.pp);
      p = o;
      p.vpp = 2;
      check_folded(on_h100(p), o.pp);
      p.defer_weight_gradients = true;
      p.pass = Pass::forward;
      check_folded(on_h100(p), o.pp);
    }
    DenseOptions p = o;
    p.grad_reduce = p.param_gather = false;
    check_folded(on_h100(p), o.pp);
    p = o;
    p.pass = Pass::forward;
    check_folded(on_h100(p), o.pp);
  });
}

TEST_CASE("Folding changes nothing: optimizer instances, other layers, issuing ops at no cost") {
  for_each_layout([](DenseOptions o) {
    o.zero = 1;
    DenseOptions p = o;
    p.optimizer_instances = 2;
    if (p.dp % 2 == 0) check_folded(on_h100(p), o.pp);
    p = o;
    p.activation = Activation::swiglu;
    p.norm = Norm::rms_norm;
    p.biases = Biases::none;
    p.position = Position::rope;
    p.kv_heads = 8;
    check_folded(on_h100(p), o.pp);
    Scenario s = on_h100(o);
    s.host.graphs = true;
    s.optimizer.clip = 0;
    check_folded(s, o.pp);
  });
}

TEST_CASE("Folding changes nothing where ranks are perturbed") {
  for_each_layout([](const DenseOptions& o) {
    Scenario s = on_h100(o);
    s.perturb = {slow_rank(5)};
    // One slow rank tells its stage's ranks apart by two questions, and through the pipeline those of all
    // stages: is it in the column of the slow rank (same tp), is it in its row (same dp)?
    const int columns = o.tp > 1 ? 2 : 1;
    const int rows = o.dp > 1 ? 2 : 1;
    check_folded(s, columns * rows * o.pp);
    Perturbation link;
    link.target = PerturbTarget::link;
    link.link = "nic";
    link.index = 5;
    link.bandwidth = 0.5;
    s.perturb = {link};
    check_folded(s, columns * rows * o.pp);
    Perturbation jitter;
    jitter.target = PerturbTarget::jitter;
    jitter.sigma = 0.1;
    s.perturb = {jitter};
    check_folded(s, 16);
  });
}

TEST_CASE("W1 folds to one class per stage, with any number of replicas") {
  for (const int ranks : {64, 256, 1024}) {
    const std::string file = MESHWEAVE_SOURCE_DIR "/scenarios/bench/w1-" + std::to_string(ranks) + ".json";
    const Scenario scenario = read_scenario(file, {});
    const Program program = lower(scenario, make_plan(scenario));
    const RankClasses classes = folded(scenario, program);
    CHECK(classes.size == std::vector<int>(8, ranks / 8));
    check_classes(program, classes, [](int, int, int stage) { return stage; });
  }
}

TEST_CASE("One slow rank splits exactly what it reaches") {
  // 8 × 2 × 8 as W1, smaller. In the stage of the slow rank four kinds of ranks are left: the slow one, the
  // other 7 of its tensor-parallel group (same dp), its data-parallel partner (same tp), and the 7 others,
  // which share no group with it but one with its partner. A pipeline neighbour has the tp and dp of the rank
  // that it talks to, so the same four kinds exist in every stage.
  DenseOptions o;
  o.tp = 8;
  o.pp = 8;
  o.dp = 2;
  o.micro_batches = 8;
  Scenario s = dense_scenario(o);
  const Program program = lower(s, make_plan(s));
  const ProcessGrid& grid = program.grids[0];
  for (const int slow : {0, 21, 77, 127}) {
    INFO("slow rank " << slow);
    s.perturb = {slow_rank(slow)};
    const RankClasses classes = folded(s, program);
    CHECK(classes.count() == 4 * 8);
    check_classes(program, classes, [&](int tp, int dp, int stage) {
      return std::tuple(stage, tp == grid.coordinate(slow, Axis::tp), dp == grid.coordinate(slow, Axis::dp));
    });
  }
}

TEST_CASE(
    "One slow rank among optimizer instances: data-parallel ranks are told apart by their shard and "
    "instance") {
  // dp 4 in 2 instances: shards over {0, 1} and {2, 3}, sums over {0, 2} and {1, 3}. Seen from the slow dp 1
  // there are the rank itself, 0 (its shard group), 3 (its instance group) and 2 (neither).
  DenseOptions o;
  o.tp = 2;
  o.dp = 4;
  o.zero = 1;
  o.optimizer_instances = 2;
  Scenario s = dense_scenario(o);
  const Program program = lower(s, make_plan(s));
  s.perturb = {slow_rank(program.grids[0].rank({0, 0, 0, 1, 0}))};
  const RankClasses classes = folded(s, program);
  CHECK(classes.count() == 8);
  check_classes(program, classes, [](int tp, int dp, int) { return std::tuple(tp, dp); });
}

TEST_CASE("A slow node splits its ranks, and what they reach") {
  // Node 3 holds tp 0 to 7 of dp 0 in stage 1. Its ranks are told apart, hence so is every tp; of the dp
  // there are two kinds, the one of the node and the other.
  DenseOptions o;
  o.tp = 8;
  o.pp = 4;
  o.dp = 3;
  o.micro_batches = 4;
  Scenario s = dense_scenario(o);
  const Program program = lower(s, make_plan(s));
  Perturbation p;
  p.target = PerturbTarget::node;
  p.index = 3;
  p.compute_time = 2;
  s.perturb = {p};
  const RankClasses classes = folded(s, program);
  CHECK(classes.count() == 8 * 2 * 4);
  check_classes(program, classes, [](int tp, int dp, int stage) { return std::tuple(stage, tp, dp == 0); });
}
