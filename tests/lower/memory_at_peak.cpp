// What re-emitting one saved tensor does to the peak: the saved bytes fall by bytes × layers of the stage ×
// micro-batches in flight, the peak by that less the copy that one layer's backward makes again.
//
// The tensor is the softmax's output of unfused attention without dropout: the only one of the attention core
// that the backward reads, so `selective` re-emits it and nothing else is saved or not.
#include <catch2/catch.hpp>

#include "sim/lower/lower.h"
#include "sim/program/liveness.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

constexpr std::int64_t s = 128, b = 2, a = 8;

// Long sequences, narrow layers: the scores are the largest tensors by far, and the peak is where their
// gradients are.
DenseOptions options(int tp, int pp, int layers) {
  DenseOptions o;
  o.tp = tp;
  o.pp = pp;
  o.layers_per_stage = layers;
  o.micro_batches = 2 * pp;
  o.micro = b;
  o.sequence = s;
  o.vocabulary = 100;
  o.fused_attention = false;
  return o;
}

struct Peak {
  std::int64_t bytes = 0;
  std::int64_t saved = 0;  // left by forwards
};

std::vector<Peak> peaks_by_stage(DenseOptions o, Recompute recompute) {
  o.recompute = recompute;
  const Scenario scenario = dense_scenario(o);
  const Program program = lower(scenario, make_plan(scenario));
  std::vector<Peak> peaks;
  for (const Body& body : program.bodies) {
    const Liveness liveness = derive_liveness(program, body, derive_waits(program, body));
    Peak& peak = peaks.emplace_back();
    peak.bytes = liveness.peak_bytes;
    CHECK(program.spec(body.ops[liveness.peak_op]).phase != Phase::forward);
    for (std::size_t i = 0; i < body.storages.size(); ++i) {
      const StorageLife& life = liveness.lives[i];
      const bool alive = life.born <= liveness.peak_op && liveness.peak_op < life.dies;
      if (body.storages[i].persistent || !alive) continue;
      if (program.spec(body.ops[life.born]).phase == Phase::forward) peak.saved += body.storages[i].bytes;
    }
  }
  return peaks;
}

// `in_flight(stage)`: forwards of virtual stages without their backward when the peak is reached.
template <class InFlight>
void check_peaks(const DenseOptions& o, const InFlight& in_flight) {
  const std::vector<Peak> none = peaks_by_stage(o, Recompute::none);
  const std::vector<Peak> selective = peaks_by_stage(o, Recompute::selective);
  REQUIRE(none.size() == static_cast<std::size_t>(o.pp));
  const std::int64_t tensor = 2 * b * s * s * a / o.tp;  // two bytes per score
  for (int stage = 0; stage < o.pp; ++stage) {
    INFO("tp " << o.tp << ", stage " << stage << " of " << o.pp << ", " << o.layers_per_stage << " layers");
    const Peak& before = none[static_cast<std::size_t>(stage)];
    const Peak& after = selective[static_cast<std::size_t>(stage)];
    const std::int64_t saved = tensor * o.layers_per_stage * in_flight(stage);
    CHECK(before.saved - after.saved == saved);
    CHECK(before.bytes - after.bytes == saved - tensor);
  }
}

}  // namespace

TEST_CASE("re-emitting one tensor under 1F1B: p - i micro-batches are in flight on stage i") {
  // p - i - 1 forwards warm up; one more precedes the first backward.
  for (const int tp : {1, 2}) {
    for (const int pp : {1, 2, 4}) {
      for (const int layers : {1, 3}) {
        check_peaks(options(tp, pp, layers), [&](int stage) { return pp - stage; });
      }
    }
  }
}

TEST_CASE("re-emitting one tensor under GPipe: all micro-batches are in flight") {
  DenseOptions o = options(1, 2, 2);
  o.schedule = ScheduleKind::gpipe;
  check_peaks(o, [&](int) { return o.micro_batches; });
}

TEST_CASE(
    "re-emitting one tensor under interleaved 1F1B: 2(p - i - 1) + (v - 1)p + 1 virtual stages are in "
    "flight") {
  DenseOptions o = options(1, 4, 2);
  o.vpp = 3;
  check_peaks(o, [&](int stage) { return 2 * (o.pp - stage - 1) + (o.vpp - 1) * o.pp + 1; });
}
