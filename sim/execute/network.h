// The network of a replay: how long transfers take. Its two implementations are all that tells the analytic
// from the simgrid executor.
//
// A transfer starts with its startup time, which the replay adds; then its bytes flow. Where no other
// transfer can change when it ends, the network says the end at once (end_alone). Where transfers compete for
// links, the replay starts it when its clock gets there and lets the network advance the clock:
//
//   rendezvous ─► startup ─► start(id) ──flows──► advance() reports id
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/time.h"
#include "sim/cost/costs.h"
#include "sim/execute/replay.h"

namespace meshweave {

// What the network needs to know of a collective or a message; `cost` and `ranks` outlive the transfer.
struct Transfer {
  const TransferCost* cost = nullptr;
  std::span<const int> ranks;  // a collective's members in the order of its ring; a message's source and destination
  bool message = false;        // only the source sends
  bool recorded = false;       // belongs to the recorded step: its bytes are counted in links()
};

class Network {
 public:
  virtual ~Network() = default;

  // The end of a transfer whose bytes begin to flow at `begin`; empty where it depends on other transfers.
  virtual std::optional<Picoseconds> end_alone(const Transfer& transfer, Picoseconds begin) = 0;

  // Starts the flows at the present time of the network; `id` is reported by advance() when the last has
  // ended.
  virtual void start(std::uint32_t id, const Transfer& transfer) = 0;

  // Moves the clock to `limit`, or to the first time before it at which transfers end: their ids are appended
  // to `ended`. Returns the new time. Picoseconds::max() means no limit; with nothing under way the clock
  // then stands.
  virtual Picoseconds advance(Picoseconds limit, std::vector<std::uint32_t>& ended) = 0;

  // Bytes carried by recorded transfers, by link; empty where links are not modelled.
  virtual std::vector<LinkUse> links() const { return {}; }
};

}  // namespace meshweave
