// The replay: one loop over events that plays a program on a network. `analytic` and `simgrid` differ only in
// the Network (network.h); everything else (streams, host lane, rendezvous, slowdown) is here.
//
// Per rank: the host issues ops in order at a cost per op; a `sync` op holds the host until it ends. An op is
// launched when it is issued, its stream is free and its waits have ended. A compute op then runs for its
// duration, longer by the slowdown factor while a communication of the rank is resident (from its launch to
// its end). A collective starts when all members have launched it, a message when both ends have; a batch
// ends with its last message. Ties are resolved by (time, rank, op). The step is played twice; step time =
// end(2) − end(1).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/time.h"
#include "sim/cost/costs.h"
#include "sim/program/classes.h"
#include "sim/program/communicators.h"
#include "sim/program/waits.h"

namespace meshweave {

enum class CauseKind : std::uint8_t {
  none,    // start of the step
  stream,  // the op before on its stream
  wait,    // an op of another stream of the same rank
  host,    // the host issued it only then
};

constexpr std::uint32_t no_op = 0xffffffff;

// One executed op of the recorded step. Times are absolute, the recorded step begins at ReplayResult::begin.
struct Slice {
  Picoseconds start{0};     // launch
  Picoseconds transfer{0};  // communications: when the transfer began (all members there; of a batch, the
                            // message that ended last); else = start
  Picoseconds end{0};
  std::uint32_t cause_op = no_op;  // same rank: the op whose end released the launch (for host: the op that
                                   // the host waited for, if any)
  std::int32_t peer = -1;          // communications: the rank whose launch began the transfer (−1: own launch)
  CauseKind cause = CauseKind::none;
  bool cause_previous_step = false;
};

struct RankTimeline {
  int rank = 0;
  std::vector<Slice> slices;  // by op of the rank's body
};

struct LinkUse {  // simgrid only: bytes carried per named link over the recorded step
  std::string link;
  double bytes = 0;
  double bytes_per_s = 0;  // capacity
};

struct ReplayResult {
  Picoseconds step{0};                  // end(2) − end(1)
  Picoseconds begin{0};                 // end(1): where the recorded step begins on the clock
  Picoseconds end{0};                   // end(2)
  std::vector<RankTimeline> timelines;  // one per class representative, by class
  std::vector<LinkUse> links;
  std::uint64_t events = 0;  // op executions
};

enum class Executor : std::uint8_t { analytic, simgrid };
std::string_view name_of(Executor);

struct ReplayInput {
  const Program* program = nullptr;
  const Communicators* communicators = nullptr;
  const std::vector<Waits>* waits = nullptr;  // by body
  const Costs* costs = nullptr;
  const RankClasses* classes = nullptr;  // simgrid needs all_ranks()
  const std::vector<Perturbation>* perturb = nullptr;
  std::uint64_t seed = 1;
};

// Throws Interrupted when `interrupt` becomes non-zero.
ReplayResult replay(const ReplayInput& input, Executor executor, const InterruptFlag* interrupt = nullptr);

}  // namespace meshweave
