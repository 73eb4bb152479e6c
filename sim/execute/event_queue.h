// The replay's own events, earliest first; ties by rank, then op, so that the order never depends on how an
// event was found.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "sim/base/time.h"

namespace meshweave {

enum class EventKind : std::uint8_t {
  compute_end,  // a compute op ends, unless its rank has news before
  flows_begin,  // the startup of a transfer is over
};

struct Event {
  Picoseconds time{0};
  int rank = 0;
  std::uint32_t op = 0;
  std::uint32_t id = 0;      // compute_end: version of the prediction; flows_begin: the transfer
  std::uint32_t player = 0;  // compute_end
  EventKind kind = EventKind::compute_end;
};

struct LaterEvent {
  bool operator()(const Event& a, const Event& b) const {
    if (a.time != b.time) return a.time > b.time;
    if (a.rank != b.rank) return a.rank > b.rank;
    if (a.op != b.op) return a.op > b.op;
    return a.id > b.id;
  }
};

using EventQueue = std::priority_queue<Event, std::vector<Event>, LaterEvent>;

}  // namespace meshweave
