// The report: what a step costs and where its time and memory go. Every number follows from the recorded slices and
// the program; explain.h shows the parts that it adds up from.
//
// Definitions. S = step time, R = ranks, means are over all ranks:
//   tokens_per_s           global batch × sequence / S
//   tflops_per_gpu         model FLOPs / S / R; model FLOPs in Megatron-LM's convention: full attention, no
//                          recomputation (Korthikanti et al. 2205.05198, equation 3)
//   latency_s              end of the first step, on an idle cluster; S is what one more step adds, which is less where
//                          steps overlap: a forward pass through a pipeline begins behind the one before
//   mfu, hfu               model FLOPs, FLOPs of the executed ops, each / (S · R · dense peak of the device)
//   bubble_fraction        mean compute-stream idle time that waits for a peer which has not yet posted / S
//   exposed_comm_fraction  mean compute-stream idle time during which the awaited transfer runs / S
//   bubble_over_ideal      mean bubble / mean compute; closed form (p − 1) / (v·m) for p stages of v chunks and m
//                          micro-batches (Narayanan et al. 2104.04473, section 2.2); none for a forward pass alone
//   peak_memory_bytes      largest over ranks of the program's peak and the framework's constant
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/report/run_view.h"

namespace meshweave {

constexpr std::size_t stream_kind_count = 7;
constexpr std::array<StreamKind, stream_kind_count> all_stream_kinds{
    StreamKind::compute,  StreamKind::tensor,   StreamKind::pipeline, StreamKind::data,
    StreamKind::boundary, StreamKind::copy_out, StreamKind::copy_in};

// The five parts of a step (sim/trace/breakdown.h), in seconds, averaged over some ranks.
struct TimeShares {
  double compute_s = 0;
  double bubble_s = 0;
  double host_s = 0;
  double copy_s = 0;
  std::array<double, stream_kind_count> exposed_s{};  // by kind of stream

  double exposed_total_s() const {
    double sum = 0;
    for (const double s : exposed_s) sum += s;
    return sum;
  }
};

// All executions of one op spec.
struct SpecUse {
  std::uint32_t spec = 0;
  double compute_s = 0;         // on the compute stream, mean over ranks; they add up to the mean compute time
  double transfer_s = 0;        // communications: time of the transfers, hidden or not, mean over ranks
  std::int64_t executions = 0;  // on all ranks
  double flops = 0;             // of one execution
};

struct StageReport {
  std::size_t module = 0;
  int stage = 0;  // pipeline coordinate
  int ranks = 0;
  TimeShares mean;
  std::int64_t ops = 0;  // on all its ranks
  std::int64_t peak_memory_bytes = 0;
};

enum class Verdict : std::uint8_t {
  fits,
  tight,  // fits, but not if the peak is larger by the device's stated error
  out_of_memory,
};
std::string_view name_of(Verdict);
// Of a predicted peak that includes the framework's constant.
Verdict verdict_of(std::int64_t peak_bytes, const DeviceModel& device);

struct MemoryReport {
  int rank = 0;  // the lowest rank with the largest peak
  std::uint32_t body = 0;
  std::int64_t peak_bytes = 0;  // the categories and the framework's constant
  BytesByCategory by_category{};
  std::int64_t framework_bytes = 0;
  std::int64_t device_bytes = 0;
  double error = 0;  // stated relative error of a predicted peak
  Verdict verdict = Verdict::fits;
  std::int64_t headroom_bytes() const { return device_bytes - peak_bytes; }
};

// What the critical path consists of, in seconds; all parts but `by_stage` and `perturbed` add up to the step.
struct PathReport {
  double compute_s = 0;
  double copy_s = 0;
  double host_s = 0;
  double start_s = 0;                                  // nothing known released the op
  std::array<double, stream_kind_count> transfer_s{};  // by kind of stream
  std::vector<double> by_stage;                        // as Report::stages
  std::vector<double> by_perturbation;                 // as Scenario::perturb: ops that it touches; 0 for jitter
};

struct Report {
  Executor executor = Executor::analytic;
  int ranks = 0;
  double step_time_s = 0;
  double latency_s = 0;
  double samples_per_s = 0;
  double tokens_per_s = 0;
  double model_flops = 0;     // per step
  double executed_flops = 0;  // per step, all ranks
  double tflops_per_gpu = 0;
  double mfu = 0;
  double hfu = 0;
  TimeShares mean;
  std::optional<double> bubble_over_ideal_closed_form;
  std::int64_t ops = 0;             // executions on all ranks
  std::vector<SpecUse> uses;        // of the specs that are executed, ascending
  std::vector<StageReport> stages;  // by module and pipeline coordinate
  MemoryReport memory;
  PathReport path;
  std::vector<Breakdown> by_class;  // exact
  std::vector<LinkUse> links;       // simgrid only

  double bubble_fraction() const { return mean.bubble_s / step_time_s; }
  double exposed_comm_fraction() const { return mean.exposed_total_s() / step_time_s; }
  double bubble_over_ideal() const { return mean.compute_s > 0 ? mean.bubble_s / mean.compute_s : 0; }
};

Report make_report(const RunView& run);

// FLOPs of one step in the model's convention; a forward pass alone counts a third.
double model_flops_of_step(const Scenario& scenario);

// The metrics that a `published` block may name, by the key that --json prints.
std::vector<std::pair<std::string_view, double>> metrics(const Report& report);
std::optional<double> metric(const Report& report, std::string_view key);

}  // namespace meshweave
