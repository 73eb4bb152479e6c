// The literature's formulas for pipelines come out of the executed program: every pass takes a fixed time,
// communication takes none, and both executors play what the lowering made.
#include <catch2/catch.hpp>

#include "tests/report/finished_run.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

// F, B and W of a micro-batch: 12 s each, which virtual stages divide into whole seconds.
constexpr double pass = 12;
constexpr double work = 3 * pass;

// The step takes (m + bubble) × 36 s, and every stage computes m × 36 s of it.
void check_bubble(const DenseOptions& options, double bubble) {
  for (const Executor executor : {Executor::analytic, Executor::simgrid}) {
    INFO(name_of(executor) << ", p = " << options.pp << ", v = " << options.vpp << ", m = " << options.micro_batches);
    const FinishedRun run(fixed_scenario(options, pass), false, executor);
    const double m = options.micro_batches;
    CHECK(run.report.step_time_s == Approx((m + bubble) * work).epsilon(1e-12));
    CHECK(run.report.bubble_over_ideal() == Approx(bubble / m).epsilon(1e-12));
    for (const StageReport& stage : run.report.stages) {
      CHECK(stage.mean.compute_s == Approx(m * work).epsilon(1e-12));
      CHECK(stage.mean.bubble_s == Approx(bubble * work).epsilon(1e-12));
    }
  }
}

}  // namespace

TEST_CASE("GPipe idles (p - 1)/m of the time that it computes") {
  // The first input reaches the last stage after p - 1 forwards, the last gradient the first stage after p -
  // 1 backwards; in between no stage waits. It does not matter whether m is below, equal to or a multiple of
  // p.
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {1, 2, 4, 7, 12}) {
      DenseOptions o = pipeline(p, 1, m);
      o.schedule = ScheduleKind::gpipe;
      check_bubble(o, p - 1);
    }
  }
}

TEST_CASE("1F1B idles (p - 1)/m of the time that it computes, as GPipe does") {
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {1, 2, 4, 7, 12}) check_bubble(pipeline(p, 1, m), p - 1);
  }
}

TEST_CASE("Interleaved 1F1B idles (p - 1)/(v m) of the time that it computes") {
  // A stage of 1/v of the layers passes its output on after 1/v of the time.
  for (const int p : {2, 3, 4, 8}) {
    for (const int v : {2, 3, 4}) {
      for (const int groups : {1, 2, 3}) check_bubble(pipeline(p, v, groups * p), (p - 1.0) / v);
    }
  }
}

TEST_CASE("8 stages, 32 micro-batches, every pass 1,000 s") {
  const auto step = [](const DenseOptions& options, Executor executor) {
    return FinishedRun(fixed_scenario(options, 1000), false, executor).report.step_time_s;
  };
  const DenseOptions plain = pipeline(8, 1, 32);
  DenseOptions deferred = plain;
  deferred.defer_weight_gradients = true;
  const DenseOptions interleaved = pipeline(8, 2, 32);
  for (const Executor executor : {Executor::analytic, Executor::simgrid}) {
    INFO(name_of(executor));
    // 32 micro-batches of F + B + W = 3,000 s, and the first and last one pass through 7 further stages: 7 ×
    // 3,000.
    CHECK(step(plain, executor) == 32 * 3000 + 7 * 3000);  // 117,000
    // Behind the send, W no longer delays the stages before: the gradient passes through 7 stages in 7 ×
    // 1,000.
    CHECK(step(deferred, executor) == 32 * 3000 + 7 * 2000);  // 110,000
    // Half the layers per virtual stage: half the bubble.
    CHECK(step(interleaved, executor) == 32 * 3000 + 7 * 3000 / 2.);  // 106,500
  }
}

TEST_CASE("Weight gradients behind the send: the bubble is (p - 1)(F + B)/(m (F + B + W))") {
  for (const int p : {2, 3, 4, 8}) {
    for (const int micro_batches : {p, 2 * p, 3 * p + 1}) {
      DenseOptions o = pipeline(p, 1, micro_batches);
      o.defer_weight_gradients = true;
      check_bubble(o, (p - 1) * 2 / 3.);
    }
  }
}

TEST_CASE("Tensor and data parallelism change nothing of the pipeline's bubble") {
  for (const int chunks : {1, 2}) {
    DenseOptions o = pipeline(4, chunks, 8);
    o.tp = o.dp = 2;
    o.sequence_parallel = true;
    o.zero = 1;
    check_bubble(o, 3. / chunks);
  }
}
