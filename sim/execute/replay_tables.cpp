#include "sim/execute/replay_tables.h"

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/narrow.h"

namespace meshweave {
namespace {

constexpr std::uint32_t no_message = 0xffffffff;
constexpr std::uint32_t no_meeting = 0xffffffff;

// Keeps the ends of the ops that another op or the host waits for.
void give_slots(BodyTable& table, const Waits& waits) {
  std::vector<bool> awaited(table.ops.size(), false);
  for (const Wait& w : waits.waits) awaited[w.op] = true;
  for (std::size_t op = 0; op < table.ops.size(); ++op) {
    if (awaited[op] || table.ops[op].sync) table.ops[op].slot = table.slots++;
  }
}

void add_waits(BodyTable& table, const Waits& waits) {
  for (std::size_t op = 0; op < table.ops.size(); ++op) {
    const std::span<const Wait> of_op = waits.of(op);
    table.ops[op].first_wait = static_cast<std::uint32_t>(table.waits.size());
    table.ops[op].wait_count = narrow<std::uint8_t>(of_op.size(), "waits of an op");
    for (const Wait& w : of_op) table.waits.push_back({w.op, table.ops[w.op].slot, w.previous_step});
  }
}

// Links each op to the one before on its stream; the first of a stream to the last, of the step before.
void link_streams(BodyTable& table, std::size_t streams) {
  std::vector<std::uint32_t> last(streams, no_op);
  std::vector<std::uint32_t> first(streams, no_op);
  for (std::uint32_t op = 0; op < table.ops.size(); ++op) {
    const std::uint8_t stream = table.ops[op].stream;
    if (first[stream] == no_op) first[stream] = op;
    table.ops[op].previous = last[stream];
    last[stream] = op;
  }
  for (std::size_t stream = 0; stream < streams; ++stream) {
    if (first[stream] != no_op) table.ops[first[stream]].previous = last[stream];
  }
}

std::uint16_t channel_of(std::vector<Channel>& channels, std::uint16_t group, std::uint8_t stream) {
  for (std::size_t i = 0; i < channels.size(); ++i) {
    if (channels[i].group == group && channels[i].stream == stream)
      return narrow<std::uint16_t>(i, "pairs of group and stream");
  }
  channels.push_back({group, stream});
  return narrow<std::uint16_t>(channels.size() - 1, "pairs of group and stream");
}

bool contains(const std::vector<std::uint8_t>& set, std::uint8_t value) {
  return std::find(set.begin(), set.end(), value) != set.end();
}

// Peers by which messages of `rank` reach `other`.
std::vector<std::uint8_t> peers_to(const Program& program, int rank, int other) {
  std::vector<std::uint8_t> result;
  for (std::size_t p = 0; p < program.peers.size(); ++p) {
    if (program.peer_rank(rank, p) == other) result.push_back(narrow<std::uint8_t>(p, "peers"));
  }
  return result;
}

// Matches the messages of body `own` over `own_peers` with those of `other` over `other_peers`: equal tags,
// opposite directions, the k-th with the k-th.
std::vector<std::uint32_t> match_messages(const Body& own, const std::vector<std::uint8_t>& own_peers,
                                          const Body& other, const std::vector<std::uint8_t>& other_peers) {
  std::map<std::pair<bool, std::uint64_t>, std::vector<std::uint32_t>> by_tag;
  for (std::size_t i = other.messages.size(); i-- > 0;) {
    const Message& m = other.messages[i];
    if (contains(other_peers, m.peer)) by_tag[{m.send, m.tag}].push_back(static_cast<std::uint32_t>(i));
  }
  std::vector<std::uint32_t> result(own.messages.size(), no_message);
  for (std::size_t i = 0; i < own.messages.size(); ++i) {
    const Message& m = own.messages[i];
    if (!contains(own_peers, m.peer)) continue;
    std::vector<std::uint32_t>& candidates = by_tag[{!m.send, m.tag}];
    ensure(!candidates.empty(), "a message has no other end");
    result[i] = candidates.back();
    candidates.pop_back();
  }
  return result;
}

}  // namespace

ReplayTables::ReplayTables(const ReplayInput& input)
    : streams_(input.program->streams.size()),
      peer_count_(input.program->peers.size()),
      rank_of_player_(input.classes->representative) {
  for (const int rank : rank_of_player_) {
    body_of_player_.push_back(input.program->body_of_rank[static_cast<std::size_t>(rank)]);
  }
  add_bodies(input);
  add_meetings(input);
  add_peers(input);
}

void ReplayTables::add_bodies(const ReplayInput& input) {
  const Program& program = *input.program;
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
    const Body& body = program.bodies[b];
    BodyTable& table = bodies_.emplace_back();
    table.body = &body;
    table.ops.resize(body.ops.size());
    table.op_of_message.resize(body.messages.size());
    for (std::size_t i = 0; i < body.ops.size(); ++i) {
      const Op& op = body.ops[i];
      const OpSpec& spec = program.spec(op);
      OpEntry& entry = table.ops[i];
      entry.stream = spec.stream;
      entry.communication = is_communication(spec.kind);
      entry.collective = is_collective(spec.kind);
      entry.sync = spec.sync;
      entry.same_call = spec.same_call;
      if (!entry.communication) entry.duration = input.costs->compute[b][i];
      if (entry.collective) entry.channel = channel_of(channels_, spec.group, spec.stream);
      for (std::uint32_t m = 0; m < op.message_count; ++m) {
        table.op_of_message[op.first_message + m] = static_cast<std::uint32_t>(i);
      }
    }
    give_slots(table, (*input.waits)[b]);
    add_waits(table, (*input.waits)[b]);
    link_streams(table, streams_);
  }
}

void ReplayTables::add_meetings(const ReplayInput& input) {
  const std::vector<std::uint32_t>& class_of = input.classes->class_of;
  meeting_of_.assign(players() * channels_.size(), no_meeting);
  std::vector<std::uint32_t> classes;
  std::vector<std::uint32_t> seen_by(players(), no_meeting);  // the meeting that a class was last found in
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    const Communicators::Of& group = input.communicators->by_group[channels_[c].group];
    for (std::uint32_t player = 0; player < players(); ++player) {
      const std::uint32_t instance = group.instance_of[static_cast<std::size_t>(rank(player))];
      if (instance == UINT32_MAX || meeting_of_[player * channels_.size() + c] != no_meeting) continue;
      const auto meeting = static_cast<std::uint32_t>(meetings_.size());
      classes.clear();
      for (const int member : group.of(instance)) {
        const std::uint32_t cls = class_of[static_cast<std::size_t>(member)];
        if (seen_by[cls] != meeting) classes.push_back(cls);
        seen_by[cls] = meeting;
      }
      for (const std::uint32_t cls : classes) meeting_of_[cls * channels_.size() + c] = meeting;
      meetings_.push_back({static_cast<std::uint32_t>(meeting_players_.size()),
                           static_cast<std::uint32_t>(classes.size()), instance,
                           narrow<std::uint16_t>(c, "pairs of group and stream")});
      meeting_players_.insert(meeting_players_.end(), classes.begin(), classes.end());
    }
  }
}

void ReplayTables::add_peers(const ReplayInput& input) {
  const Program& program = *input.program;
  peers_.resize(players() * peer_count_);
  for (std::uint32_t player = 0; player < players(); ++player) {
    std::vector<bool> used(peer_count_, false);
    for (const Message& m : body(player).body->messages) used[m.peer] = true;
    for (std::size_t p = 0; p < peer_count_; ++p) {
      if (!used[p]) continue;
      const int own_rank = rank(player);
      const int other_rank = program.peer_rank(own_rank, p);
      PeerEntry& entry = peers_[player * peer_count_ + p];
      entry.rank = other_rank;
      entry.player = input.classes->class_of[static_cast<std::size_t>(other_rank)];
      const std::uint32_t other_body = program.body_of_rank[static_cast<std::size_t>(other_rank)];
      const Ends own{body_of_player_[player], peers_to(program, own_rank, other_rank)};
      const Ends other{other_body, peers_to(program, other_rank, own_rank)};
      const auto [known, fresh] = other_ends_.try_emplace({own, other});
      if (fresh) {
        known->second =
            match_messages(program.bodies[own.first], own.second, program.bodies[other.first], other.second);
      }
      entry.other_end = &known->second;
    }
  }
}

}  // namespace meshweave
