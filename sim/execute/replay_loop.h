// The event loop of the replay.
//
// Everything that can be known without moving the clock is worked out first, rank by rank: compute ops run
// ahead of the clock, and a rendezvous is complete when the last launch time is known, whatever the order in
// which they were found. Only then the earliest event is taken: the predicted end of a compute op that a
// communication may still slow down or speed up, or flows that begin or end on a shared network. What follows
// from an event is never earlier than the event, so events are taken in order of time.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sim/execute/event_queue.h"
#include "sim/execute/network.h"
#include "sim/execute/perturbations.h"
#include "sim/execute/rank_state.h"
#include "sim/execute/replay.h"
#include "sim/execute/replay_tables.h"

namespace meshweave {

class ReplayLoop {
 public:
  ReplayLoop(const ReplayInput& input, const Perturbations& perturbations, Network& network,
             const InterruptFlag* interrupt);

  ReplayResult play();

 private:
  // A transfer whose end the network tells later.
  struct Flight {
    Transfer transfer;
    Picoseconds begin{0};       // all members there
    TransferCost message_cost;  // a message's, which `transfer` points to
    int message_ranks[2] = {0, 0};
    std::uint32_t meeting = 0;  // of a collective
    std::uint32_t player = 0;   // of a message: one end …
    std::uint32_t message = 0;
  };

  // One rank: works out all that is known of it.
  void run(std::uint32_t player);
  bool issue_next(std::uint32_t player);
  Picoseconds ready_time(const RankState& r, const OpEntry& op, std::uint8_t step, Picoseconds issued) const;
  void launch_pending(std::uint32_t player);
  void launch(std::uint32_t player, PlayedOp played, const Issue& issue, Picoseconds at);
  bool settle_compute(std::uint32_t player);
  void end_op(RankState& r, const OpEntry& op, PlayedOp played, Picoseconds end);
  void wake(std::uint32_t player);

  // Rendezvous.
  void arrive(std::uint32_t player, const OpEntry& op, Picoseconds at);
  void begin_collective(std::uint32_t meeting);
  void end_collective(std::uint32_t meeting, Picoseconds end);
  void post_batch(std::uint32_t player, const OpEntry& op, PlayedOp played);
  void begin_message(std::uint32_t player, std::uint32_t message, Picoseconds begin);
  void end_message(std::uint32_t player, std::uint32_t message, Picoseconds begin, Picoseconds end);
  void end_message_at(std::uint32_t player, std::uint32_t message, int other_rank, Picoseconds begin, Picoseconds end);
  void end_communication(std::uint32_t player, std::uint8_t stream, Picoseconds begin, int peer, Picoseconds end);

  // The clock.
  void fly(Flight&& flight, Picoseconds flows_begin, int rank, std::uint32_t op);
  void land(std::uint32_t id, Picoseconds end);
  bool take_events();

  // Records of the second play.
  void record_launch(const RankState& r, std::uint32_t player, const OpEntry& op, PlayedOp played, const Issue& issue,
                     Picoseconds at);
  int last_to_arrive(std::uint32_t player, const Meeting& meeting, std::uint8_t stream, Picoseconds latest) const;
  void require_all_ended() const;
  void count_op();

  const ReplayInput& input_;
  const Perturbations& perturbations_;
  Network& network_;
  const InterruptFlag* interrupt_;
  const ReplayTables tables_;
  const bool slows_;              // whether communications slow compute down
  std::vector<RankState> ranks_;  // by player
  std::vector<Picoseconds> ends_;
  std::vector<Lane> lanes_;
  struct Arrivals {
    std::uint32_t count = 0;
    Picoseconds latest{0};
  };
  std::vector<Arrivals> arrivals_;   // by meeting
  std::vector<std::uint32_t> work_;  // players to run
  std::uint32_t running_ = no_op;    // the player that runs, and the stream that it launches on
  std::uint8_t launching_ = 0;
  EventQueue events_;
  std::deque<Flight> flights_;
  std::vector<std::uint32_t> free_flights_;
  std::vector<std::uint32_t> landed_;
  Picoseconds step_end_[2] = {Picoseconds{0}, Picoseconds{0}};
  ReplayResult result_;
};

}  // namespace meshweave
