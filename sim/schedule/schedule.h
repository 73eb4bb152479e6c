// Pipeline schedules as data: for one pipeline rank the order of its computations and of its exchanges with the
// neighbours. The lowering stamps blocks for it; any executor then replays the result.
//
// Micro-batch i of chunk c is forwarded by {forward, c, i}, its gradient is taken by {backward, c, i} and, when weight
// gradients are deferred, by {weight, c, i}. An exchange posts all its transfers together (one point_to_point op).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/layout/placement.h"
#include "sim/scenario/scenario.h"

namespace meshweave {

enum class ActionKind : std::uint8_t { forward, backward, weight, exchange };

// One end of a transfer. Forward: this chunk's input received or its output sent; backward: the gradient of its
// output received or of its input sent.
struct PipelineTransfer {
  bool send = false;
  bool backward = false;
  int chunk = 0;
  int micro_batch = 0;
  bool operator==(const PipelineTransfer&) const = default;
};

struct Action {
  std::size_t module = 0;  // whose pipeline it belongs to
  ActionKind kind = ActionKind::forward;
  int chunk = 0;
  int micro_batch = 0;
  std::vector<PipelineTransfer> transfers;  // exchange only
};

// What a schedule depends on.
struct PipelineShape {
  std::size_t module = 0;
  Placement placement;
  int micro_batches = 1;  // interleaved: a multiple of the pipeline ranks
  bool forward_only = false;
  bool defer_weight_gradients = false;

  int ranks() const { return placement.ranks(); }
  int chunks() const { return placement.chunks(); }
};

// GPipe (Huang et al. 1811.06965): all forwards, then all backwards.
std::vector<Action> gpipe(const PipelineShape& shape, int pp);
// 1F1B (Narayanan et al. 2104.04473), with Megatron-LM's batched exchanges; interleaved when chunks > 1.
std::vector<Action> one_f_one_b(const PipelineShape& shape, int pp);

std::vector<Action> make_schedule(ScheduleKind kind, const PipelineShape& shape, int pp);

}  // namespace meshweave
