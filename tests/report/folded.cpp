// What the folded axis costs on a MI300X node: when overlap hides its weight traffic, and what unequal shards cost.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "sim/scenario/reader.h"
#include "tests/report/finished_run.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

// A forward pass of one layer of the TSP paper's model, 8 ranks that share a sequence.
Scenario one_layer(std::int64_t sequence, const std::string& layout) {
  const std::string text = R"({ "cluster": { "node": "mi300x-8", "nodes": 1 },
    "model": { "language": { "zoo": "tsp-7b", "layers": 1, "vocabulary": 256, "sequence": )" +
                           std::to_string(sequence) + R"( } },
    "batch": { "global": 1 }, "pass": "forward", "host": { "graphs": true },
    "layout": { "language": )" +
                           layout + " } }";
  return parse_scenario(text, "one-layer.json");
}

double step_time(std::int64_t sequence, const std::string& layout) {
  return FinishedRun(one_layer(sequence, layout), true).report.step_time_s;
}

// The sum of the steps of the MLP's ring that compute waits for: what a plain ring takes beyond a striped one.
double exposed(std::int64_t sequence, const std::string& ring, int prefetch) {
  const std::string layout =
      R"({ "tsp": { "degree": 8, "ring": ")" + ring + R"(", "prefetch": )" + std::to_string(prefetch) + " } }";
  return FinishedRun(one_layer(sequence, layout), true).report.mean.exposed_total_s();
}

// How much faster TSP of `degree` is than the faster factorisation T × Σ of as many ranks, at micro-batch 2, with
// contiguous shards and exposed collectives on plain rings (docs/tsp-paper.md, the preset).
double gain(int degree, std::int64_t sequence) {
  const auto time = [&](const std::string& layout, const std::string& further) {
    const std::string text = R"({ "cluster": { "node": { "base": "mi300x-8", "gpus": )" + std::to_string(degree) +
                             R"( } },
      "model": { "language": { "zoo": "tsp-7b", "layers": 32, "vocabulary": 256, "sequence": )" +
                             std::to_string(sequence) + R"( } },
      "batch": { "global": 2, "micro": 2 }, "pass": "forward", "host": { "graphs": true },
      "layout": { "language": )" +
                             layout + " }" + further + " }";
    return FinishedRun(parse_scenario(text, "gain.json"), true).report.step_time_s;
  };
  double baseline = std::numeric_limits<double>::infinity();
  for (int tp = degree / 2; tp >= std::max(1, degree / 4); tp /= 2) {
    baseline = std::min(
        baseline, time(R"({ "tp": )" + std::to_string(tp) + R"(, "cp": { "degree": )" + std::to_string(degree / tp) +
                           R"(, "kind": "all-gather", "partition": "contiguous" } })",
                       R"(, "collectives": { "mesh": "one-link" }, "overlap": { "cp": false })"));
    if (tp == 1) break;
  }
  return baseline / time(R"({ "tsp": { "degree": )" + std::to_string(degree) + " } }", "");
}

}  // namespace

TEST_CASE("What TSP gains over the preset grows with its degree and with the sequence") {
  // Of a layer TP and TP+SP expose 4X(T−1)/T/Σ + 2X/T(Σ−1)/Σ bytes, X = B·S·h·2 B, and wait for the last part of the
  // sequence; TSP hides weights that do not grow with S. Attention, equal in both, grows with S², so that the gain
  // levels off where it is all that counts.
  CHECK(gain(8, 32768) > gain(8, 16384));
  CHECK(gain(8, 131072) > gain(8, 32768));
  for (const std::int64_t sequence : {65536, 131072}) {
    CHECK(gain(4, sequence) > gain(2, sequence));
    CHECK(gain(8, sequence) > gain(4, sequence));
  }
}

TEST_CASE("A plain ring hides the MLP's weights behind long sequences only, a striped one behind short ones too") {
  // A hop brings 3·F·h²·2 B / D = 50.3 MB: 1.05 ms on a link of 48 GB/s, beside 6·F·h²·(S/D)/D FLOPs. At 128K tokens
  // those take 0.824 TFLOP / 8 = 1.4 ms at 600 TFLOP/s, at 16K an eighth of that, 0.17 ms: seven hops of which 0.88 ms
  // each are exposed, less what a seventh of a hop takes where it is not hidden either.
  const double hop_s = 3 * 4 * 4096.0 * 4096.0 * 2 / 8 / 48e9;
  CHECK(exposed(131072, "plain", 1) - exposed(131072, "striped", 1) < 0.1 * hop_s);
  const double short_s = exposed(16384, "plain", 1) - exposed(16384, "striped", 1);
  CHECK(short_s > 7 * 0.65 * hop_s);
  CHECK(short_s < 7 * hop_s);
}

TEST_CASE("Without prefetch all weight traffic and all gathers are exposed") {
  // Seven hops, eight broadcasts of 16.8 MB and eight gathers of 2·S·h/8·2 B.
  const double hidden = exposed(131072, "plain", 1), open = exposed(131072, "plain", 0);
  const double hops_s = 7 * 3 * 4 * 4096.0 * 4096.0 * 2 / 8 / 48e9;
  const double gathers_s = 2 * 131072.0 * 4096 * 2 * 7 / 8 / (7 * 48e9);
  CHECK(open - hidden > 0.9 * (hops_s + gathers_s));
}

TEST_CASE("Contiguous shards wait for the last: its attention is 15/8 of the mean") {
  const double zigzag = step_time(131072, R"({ "tsp": { "degree": 8 } })");
  const double contiguous = step_time(131072, R"({ "tsp": { "degree": 8, "partition": "contiguous" } })");
  // Attention is about two thirds of the layer at 128K, and 7/8 of that would be added, were not the time that the last
  // blocks of a kernel take alone the same for both.
  CHECK(contiguous / zigzag > 1.3);
  CHECK(contiguous / zigzag < 1.875);
}
