// The tables of a replay: what of a program, its waits and its costs the event loop looks up, laid out for
// speed.
//
// A *player* is a rank that is simulated: the representative of a class. Bodies share one OpEntry per op.
// With folded classes a collective of a player's group meets the distinct classes in that group (classes.h
// says why this is exact); of two groups with the same classes, only one meeting is played.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "sim/base/time.h"
#include "sim/execute/replay.h"

namespace meshweave {

constexpr std::uint32_t no_slot = 0xffffffff;

struct WaitEntry {
  std::uint32_t op = 0;
  std::uint32_t slot = 0;  // where the end of `op` is kept
  bool previous_step = false;
};

struct OpEntry {
  Picoseconds duration{0};  // of a compute op or copy, before perturbations
  std::uint32_t first_wait = 0;
  std::uint32_t slot = no_slot;  // where its end is kept for those that wait for it
  std::uint32_t previous = 0;    // the op before on its stream; not below its own index: of the step before
  std::uint8_t wait_count = 0;
  std::uint8_t stream = 0;
  std::uint16_t channel = 0;  // collectives: index into ReplayTables::channels
  bool communication = false;
  bool collective = false;
  bool sync = false;
  bool same_call = false;
};

struct BodyTable {
  const Body* body = nullptr;
  std::vector<OpEntry> ops;
  std::vector<WaitEntry> waits;
  std::vector<std::uint32_t> op_of_message;
  std::uint32_t slots = 0;

  std::span<const WaitEntry> waits_of(const OpEntry& op) const { return {waits.data() + op.first_wait, op.wait_count}; }
};

// A (group, stream) pair that collectives use.
struct Channel {
  std::uint16_t group = 0;
  std::uint8_t stream = 0;
};

// Where the players of one communicator meet.
struct Meeting {
  std::uint32_t first_player = 0;  // into ReplayTables::meeting_players, by the smallest rank of each in the group
  std::uint32_t players = 0;
  std::uint32_t instance = 0;  // of the channel's group; with folded classes that of the first player
  std::uint16_t channel = 0;
};

// The other end of a player's messages to one peer.
struct PeerEntry {
  std::uint32_t player = 0;
  int rank = 0;                                           // the peer itself, which `player` stands for
  const std::vector<std::uint32_t>* other_end = nullptr;  // by message of the own body: message of the peer's
};

class ReplayTables {
 public:
  explicit ReplayTables(const ReplayInput& input);

  std::size_t players() const { return rank_of_player_.size(); }
  int rank(std::uint32_t player) const { return rank_of_player_[player]; }
  const BodyTable& body(std::uint32_t player) const { return bodies_[body_of_player_[player]]; }
  std::uint32_t body_index(std::uint32_t player) const { return body_of_player_[player]; }
  std::size_t streams() const { return streams_; }

  const Channel& channel(std::uint16_t index) const { return channels_[index]; }
  std::uint32_t meeting(std::uint32_t player, std::uint16_t channel) const {
    return meeting_of_[player * channels_.size() + channel];
  }
  const std::vector<Meeting>& meetings() const { return meetings_; }
  std::span<const std::uint32_t> players_of(const Meeting& m) const {
    return {meeting_players_.data() + m.first_player, m.players};
  }
  const PeerEntry& peer(std::uint32_t player, std::uint8_t peer) const { return peers_[player * peer_count_ + peer]; }

 private:
  void add_bodies(const ReplayInput& input);
  void add_meetings(const ReplayInput& input);
  void add_peers(const ReplayInput& input);

  std::size_t streams_ = 0;
  std::size_t peer_count_ = 0;
  std::vector<int> rank_of_player_;
  std::vector<std::uint32_t> body_of_player_;
  std::vector<BodyTable> bodies_;
  std::vector<Channel> channels_;
  std::vector<std::uint32_t> meeting_of_;  // by player and channel
  std::vector<Meeting> meetings_;
  std::vector<std::uint32_t> meeting_players_;
  std::vector<PeerEntry> peers_;  // by player and peer
  // By body and peers that lead to the other rank, at either end.
  using Ends = std::pair<std::uint32_t, std::vector<std::uint8_t>>;
  std::map<std::pair<Ends, Ends>, std::vector<std::uint32_t>> other_ends_;
};

}  // namespace meshweave
