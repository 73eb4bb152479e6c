#include "sim/execute/replay_loop.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"

namespace meshweave {
namespace {

constexpr std::uint64_t ops_between_interrupt_checks = 4096;

// Drops the communications that ended before `now`: no later compute op meets them.
void forget_residencies(RankState& r, Picoseconds now) {
  std::erase_if(r.residencies, [&](const Residency& residency) { return residency.end <= now; });
}

}  // namespace

ReplayLoop::ReplayLoop(const ReplayInput& input, const Perturbations& perturbations, Network& network,
                       const InterruptFlag* interrupt)
    : input_(input),
      perturbations_(perturbations),
      network_(network),
      interrupt_(interrupt),
      tables_(input),
      slows_(input.costs->slowdown != 1) {
  ensure(tables_.streams() <= 64, "a program has at most 64 streams");
  const std::size_t players = tables_.players();
  ranks_.resize(players);
  lanes_.resize(players * tables_.streams());
  arrivals_.resize(tables_.meetings().size());
  std::size_t slots = 0;
  for (std::uint32_t p = 0; p < players; ++p) slots += 2 * tables_.body(p).slots;
  ends_.assign(slots, unknown_time);
  result_.timelines.resize(players);
  slots = 0;
  for (std::uint32_t p = 0; p < players; ++p) {
    RankState& r = ranks_[p];
    r.body = &tables_.body(p);
    r.rank = tables_.rank(p);
    r.perturbed = perturbations.slows(r.rank);
    r.ends = ends_.data() + slots;
    r.lanes = lanes_.data() + p * tables_.streams();
    const bool free = r.body->ops.empty() || r.body->ops.front().same_call;
    r.host.time = free ? Picoseconds{0} : -input.costs->host_issue;  // the first op is issued at 0
    slots += 2 * r.body->slots;
    result_.timelines[p].rank = r.rank;
    result_.timelines[p].slices.resize(r.body->ops.size());
  }
}

ReplayResult ReplayLoop::play() {
  for (std::size_t p = ranks_.size(); p-- > 0;) wake(static_cast<std::uint32_t>(p));
  do {
    while (!work_.empty()) {
      const std::uint32_t player = work_.back();
      work_.pop_back();
      run(player);
    }
  } while (take_events());
  require_all_ended();
  result_.begin = step_end_[0];
  result_.end = step_end_[1];
  result_.step = result_.end - result_.begin;
  result_.links = network_.links();
  return std::move(result_);
}

// --- One rank
// ------------------------------------------------------------------------------------------------------

void ReplayLoop::wake(std::uint32_t player) {
  RankState& r = ranks_[player];
  if (r.queued) return;
  r.queued = true;
  work_.push_back(player);
}

void ReplayLoop::run(std::uint32_t player) {
  RankState& r = ranks_[player];
  r.queued = false;
  running_ = player;
  if (!r.pending.empty()) launch_pending(player);
  if (r.compute.active) {
    if (!settle_compute(player)) return;
    ++r.next.op;
  }
  for (; r.next.step < 2; ++r.next.step, r.next.op = 0) {
    for (; r.next.op < r.body->ops.size(); ++r.next.op) {
      if (!issue_next(player)) return;
    }
  }
}

// Issues the op at which the scan stands; false where the scan must stay there.
bool ReplayLoop::issue_next(std::uint32_t player) {
  RankState& r = ranks_[player];
  const OpEntry& op = r.body->ops[r.next.op];
  Issue issue{r.host.time + (op.same_call ? Picoseconds{0} : input_.costs->host_issue), r.host.held_by};
  if (r.sync.op != no_op) {
    const Picoseconds end = r.end_of(r.body->ops[r.sync.op].slot, r.sync.step);
    if (end == unknown_time) return false;
    if (end > issue.time) issue = {end, r.sync};
  }
  Lane& lane = r.lanes[op.stream];
  const Picoseconds at = lane.pending > 0 ? unknown_time : ready_time(r, op, r.next.step, issue.time);
  if (at == unknown_time && op.stream == 0) return false;
  r.host = issue;
  r.sync = op.sync ? r.next : PlayedOp{};
  if (at == unknown_time) {
    ++lane.pending;
    r.pending.push_back({r.next, issue});
    return true;
  }
  launch(player, r.next, issue, at);
  return !r.compute.active;
}

// When the op can launch: issued, its stream free, what it waits for ended.
Picoseconds ReplayLoop::ready_time(const RankState& r, const OpEntry& op, std::uint8_t step, Picoseconds issued) const {
  Picoseconds at = std::max(issued, r.lanes[op.stream].end);
  for (const WaitEntry& w : r.body->waits_of(op)) {
    if (w.previous_step && step == 0) continue;
    at = std::max(at, r.ends[static_cast<std::size_t>(w.previous_step ? step - 1 : step) * r.body->slots + w.slot]);
  }
  return at;  // unknown_time is the largest of times
}

void ReplayLoop::launch_pending(std::uint32_t player) {
  RankState& r = ranks_[player];
  std::uint64_t held = 0;  // streams whose first pending op stays
  std::size_t kept = 0;
  for (std::size_t i = 0; i < r.pending.size(); ++i) {
    const PendingOp pending = r.pending[i];
    const OpEntry& op = r.body->ops[pending.played.op];
    const std::uint64_t bit = std::uint64_t{1} << op.stream;
    const Picoseconds at =
        (held & bit) != 0 ? unknown_time : ready_time(r, op, pending.played.step, pending.issue.time);
    if (at == unknown_time) {
      held |= bit;
      r.pending[kept++] = pending;
      continue;
    }
    --r.lanes[op.stream].pending;
    launch(player, pending.played, pending.issue, at);
  }
  r.pending.resize(kept);
}

void ReplayLoop::launch(std::uint32_t player, PlayedOp played, const Issue& issue, Picoseconds at) {
  RankState& r = ranks_[player];
  const OpEntry& op = r.body->ops[played.op];
  count_op();
  if (played.step == 1) record_launch(r, player, op, played, issue, at);
  if (!op.communication) {
    const bool compute = op.stream == 0;
    const Picoseconds duration =
        compute && r.perturbed ? perturbations_.duration(op.duration, r.rank, played.op, played.step) : op.duration;
    if (compute && slows_) forget_residencies(r, at);
    if (compute && slows_ && !(r.residencies.empty() && r.pending.empty())) {
      r.compute = {true, at, static_cast<double>(duration.count()), unknown_time, r.compute.prediction};
      settle_compute(player);
      return;
    }
    end_op(r, op, played, at + duration);
    return;
  }
  Lane& lane = r.lanes[op.stream];
  lane.launch = at;
  lane.end = unknown_time;
  lane.played = played;
  if (slows_ && op.stream != 0) r.residencies.push_back({at, unknown_time, op.stream});
  launching_ = op.stream;
  if (op.collective) {
    arrive(player, op, at);
  } else {
    post_batch(player, op, played);
  }
}

// Ends the running compute op where nothing can change its end any more; else predicts the end and returns
// false.
bool ReplayLoop::settle_compute(std::uint32_t player) {
  RankState& r = ranks_[player];
  RunningCompute& c = r.compute;
  const Picoseconds end = slowed_end(c.start, c.work, input_.costs->slowdown, r.residencies);
  const bool open =
      !r.pending.empty() || std::any_of(r.residencies.begin(), r.residencies.end(), [&](const Residency& residency) {
        return residency.end == unknown_time && residency.launch < end;
      });
  if (open) {
    if (end != c.predicted_end) {
      c.predicted_end = end;
      events_.push({end, r.rank, r.next.op, ++c.prediction, player, EventKind::compute_end});
    }
    return false;
  }
  ++c.prediction;
  c.active = false;
  end_op(r, r.body->ops[r.next.op], r.next, end);
  return true;
}

void ReplayLoop::end_op(RankState& r, const OpEntry& op, PlayedOp played, Picoseconds end) {
  r.lanes[op.stream].end = end;
  if (op.slot != no_slot) r.end_of(op.slot, played.step) = end;
  step_end_[played.step] = std::max(step_end_[played.step], end);
  if (played.step == 1) {
    result_.timelines[static_cast<std::size_t>(&r - ranks_.data())].slices[played.op].end = end;
  }
}

// --- Rendezvous
// ----------------------------------------------------------------------------------------------------

void ReplayLoop::arrive(std::uint32_t player, const OpEntry& op, Picoseconds at) {
  const std::uint32_t id = tables_.meeting(player, op.channel);
  Arrivals& arrivals = arrivals_[id];
  arrivals.latest = arrivals.count == 0 ? at : std::max(arrivals.latest, at);
  if (++arrivals.count == tables_.meetings()[id].players) begin_collective(id);
}

void ReplayLoop::begin_collective(std::uint32_t id) {
  const Meeting& meeting = tables_.meetings()[id];
  const Channel& channel = tables_.channel(meeting.channel);
  const std::uint32_t first = tables_.players_of(meeting)[0];
  const RankState& r = ranks_[first];
  const PlayedOp played = r.lanes[channel.stream].played;
  const std::uint32_t spec = r.body->body->ops[played.op].spec;
  const std::uint32_t placement = input_.costs->placement_of[channel.group][meeting.instance];
  Transfer transfer;
  transfer.cost = &input_.costs->transfers[input_.costs->transfer_base[spec] + placement];
  transfer.ranks = input_.communicators->by_group[channel.group].of(meeting.instance);
  transfer.recorded = played.step == 1;
  const Picoseconds flows_begin = arrivals_[id].latest + transfer.cost->startup;
  if (const auto end = network_.end_alone(transfer, flows_begin)) {
    end_collective(id, *end);
    return;
  }
  Flight flight;
  flight.transfer = transfer;
  flight.meeting = id;
  fly(std::move(flight), flows_begin, r.rank, played.op);
}

void ReplayLoop::end_collective(std::uint32_t id, Picoseconds end) {
  const Meeting& meeting = tables_.meetings()[id];
  const std::uint8_t stream = tables_.channel(meeting.channel).stream;
  const Picoseconds begin = arrivals_[id].latest;
  arrivals_[id].count = 0;
  for (const std::uint32_t player : tables_.players_of(meeting)) {
    const Lane& lane = ranks_[player].lanes[stream];
    const bool late = lane.played.step == 1 && lane.launch != begin;
    const int peer = late ? last_to_arrive(player, meeting, stream, begin) : -1;
    end_communication(player, stream, begin, peer, end);
  }
}

// The smallest rank of the player's own group that launched last.
int ReplayLoop::last_to_arrive(std::uint32_t player, const Meeting& meeting, std::uint8_t stream,
                               Picoseconds latest) const {
  const Communicators::Of& group = input_.communicators->by_group[tables_.channel(meeting.channel).group];
  int last = -1;
  for (const int member : group.of(group.instance_of[static_cast<std::size_t>(tables_.rank(player))])) {
    const std::uint32_t other = input_.classes->class_of[static_cast<std::size_t>(member)];
    if (ranks_[other].lanes[stream].launch == latest && (last < 0 || member < last)) last = member;
  }
  return last;
}

// Each message of the batch begins when its other end is posted too. A lane whose batch has open messages
// cannot have gone on, so the other end is posted exactly when its op is the one that runs there.
void ReplayLoop::post_batch(std::uint32_t player, const OpEntry& entry, PlayedOp played) {
  RankState& r = ranks_[player];
  const Op& op = r.body->body->ops[played.op];
  Lane& lane = r.lanes[entry.stream];
  lane.open_messages = op.message_count;
  lane.last_end = lane.last_begin = lane.launch;
  lane.last_peer = -1;
  lane.last_message = 0;
  if (op.message_count == 0) {
    end_communication(player, entry.stream, lane.launch, -1, lane.launch);
    return;
  }
  for (std::uint32_t m = op.first_message; m < op.first_message + op.message_count; ++m) {
    const Message& message = r.body->body->messages[m];
    const PeerEntry& peer = tables_.peer(player, message.peer);
    const RankState& other = ranks_[peer.player];
    const std::uint32_t other_op = other.body->op_of_message[(*peer.other_end)[m]];
    const Lane& other_lane = other.lanes[other.body->ops[other_op].stream];
    const bool both_here = peer.player == player && other_op == played.op;
    if (both_here && !message.send) continue;
    const bool posted =
        other_lane.end == unknown_time && other_lane.played.op == other_op && other_lane.played.step == played.step;
    if (posted) begin_message(player, m, std::max(lane.launch, other_lane.launch));
  }
}

void ReplayLoop::begin_message(std::uint32_t player, std::uint32_t m, Picoseconds begin) {
  const RankState& r = ranks_[player];
  const Body& body = *r.body->body;
  const Message& message = body.messages[m];
  const int other = tables_.peer(player, message.peer).rank;
  const std::uint32_t op = r.body->op_of_message[m];
  // The sender's batch says what travels together.
  const PeerEntry& far = tables_.peer(player, message.peer);
  const BodyTable& sender = message.send ? *r.body : *ranks_[far.player].body;
  const std::uint32_t sent = message.send ? m : (*far.other_end)[m];
  const auto bytes = static_cast<double>(wire_bytes(
      *input_.program, *sender.body, sender.body->ops[sender.op_of_message[sent]], sender.body->messages[sent]));
  Flight flight;
  flight.message_ranks[0] = message.send ? r.rank : other;
  flight.message_ranks[1] = message.send ? other : r.rank;
  flight.message_cost = input_.costs->message(bytes, flight.message_ranks[0], flight.message_ranks[1],
                                              input_.program->spec(body.ops[op]).attributes.stripes);
  flight.transfer.cost = &flight.message_cost;
  flight.transfer.ranks = flight.message_ranks;
  flight.transfer.message = true;
  flight.transfer.recorded = r.lanes[r.body->ops[op].stream].played.step == 1;
  flight.begin = begin;
  const Picoseconds flows_begin = begin + flight.message_cost.startup;
  if (const auto end = network_.end_alone(flight.transfer, flows_begin)) {
    end_message(player, m, begin, *end);
    return;
  }
  flight.player = player;
  flight.message = m;
  fly(std::move(flight), flows_begin, r.rank, op);
}

void ReplayLoop::end_message(std::uint32_t player, std::uint32_t m, Picoseconds begin, Picoseconds end) {
  const RankState& r = ranks_[player];
  const PeerEntry& peer = tables_.peer(player, r.body->body->messages[m].peer);
  const std::uint32_t other_end = (*peer.other_end)[m];
  // Seen from the other player, this end is the rank that its own peer table names.
  const Message& other_message = ranks_[peer.player].body->body->messages[other_end];
  const int own_rank = tables_.peer(peer.player, other_message.peer).rank;
  end_message_at(player, m, peer.rank, begin, end);
  end_message_at(peer.player, other_end, own_rank, begin, end);
}

// Ends one end of a message. The message that ends last ends the batch; of several the one that began last,
// then the first in the batch.
void ReplayLoop::end_message_at(std::uint32_t player, std::uint32_t m, int other_rank, Picoseconds begin,
                                Picoseconds end) {
  RankState& r = ranks_[player];
  const std::uint8_t stream = r.body->ops[r.body->op_of_message[m]].stream;
  Lane& lane = r.lanes[stream];
  const bool first = lane.open_messages == r.body->body->ops[lane.played.op].message_count;
  const bool later =
      first || end > lane.last_end ||
      (end == lane.last_end && (begin > lane.last_begin || (begin == lane.last_begin && m < lane.last_message)));
  if (later) {
    lane.last_end = end;
    lane.last_begin = begin;
    lane.last_message = m;
    lane.last_peer = begin > lane.launch ? other_rank : -1;
  }
  if (--lane.open_messages == 0) end_communication(player, stream, lane.last_begin, lane.last_peer, lane.last_end);
}

void ReplayLoop::end_communication(std::uint32_t player, std::uint8_t stream, Picoseconds begin, int peer,
                                   Picoseconds end) {
  RankState& r = ranks_[player];
  const PlayedOp played = r.lanes[stream].played;
  end_op(r, r.body->ops[played.op], played, end);
  if (played.step == 1) {
    Slice& slice = result_.timelines[player].slices[played.op];
    slice.transfer = begin;
    slice.peer = peer;
  }
  for (Residency& residency : r.residencies) {
    if (residency.stream == stream && residency.end == unknown_time) residency.end = end;
  }
  const bool launching = player == running_ && stream == launching_;
  if (!launching) wake(player);
}

// --- The clock
// -----------------------------------------------------------------------------------------------------

// Lets the network carry a transfer from `flows_begin` on.
void ReplayLoop::fly(Flight&& flight, Picoseconds flows_begin, int rank, std::uint32_t op) {
  std::uint32_t id = static_cast<std::uint32_t>(flights_.size());
  if (free_flights_.empty()) {
    flights_.push_back(std::move(flight));
  } else {
    id = free_flights_.back();
    free_flights_.pop_back();
    flights_[id] = std::move(flight);
  }
  Flight& stored = flights_[id];
  if (stored.transfer.message) {
    stored.transfer.cost = &stored.message_cost;
    stored.transfer.ranks = stored.message_ranks;
  }
  events_.push({flows_begin, rank, op, id, 0, EventKind::flows_begin});
}

void ReplayLoop::land(std::uint32_t id, Picoseconds end) {
  const Flight& flight = flights_[id];
  free_flights_.push_back(id);
  if (flight.transfer.message) {
    end_message(flight.player, flight.message, flight.begin, end);
  } else {
    end_collective(flight.meeting, end);
  }
}

// Moves the clock to the next events and takes them; false where there are none.
bool ReplayLoop::take_events() {
  running_ = no_op;
  const Picoseconds limit = events_.empty() ? unknown_time : events_.top().time;
  landed_.clear();
  const Picoseconds now = network_.advance(limit, landed_);
  for (const std::uint32_t id : landed_) land(id, now);
  if (!landed_.empty()) return true;
  if (events_.empty()) return false;
  while (!events_.empty() && events_.top().time == limit) {
    const Event event = events_.top();
    events_.pop();
    if (event.kind == EventKind::flows_begin) {
      network_.start(event.id, flights_[event.id].transfer);
      continue;
    }
    RankState& r = ranks_[event.player];
    if (!r.compute.active || r.compute.prediction != event.id) continue;
    // Nothing that is still unknown can come before now: the prediction holds.
    r.compute.active = false;
    end_op(r, r.body->ops[r.next.op], r.next, limit);
    ++r.next.op;
    wake(event.player);
  }
  return true;
}

// --- Records
// -------------------------------------------------------------------------------------------------------

void ReplayLoop::record_launch(const RankState& r, std::uint32_t player, const OpEntry& op, PlayedOp played,
                               const Issue& issue, Picoseconds at) {
  Slice& slice = result_.timelines[player].slices[played.op];
  slice.start = slice.transfer = at;
  if (r.lanes[op.stream].end == at) {
    slice.cause = CauseKind::stream;
    slice.cause_op = op.previous;
    slice.cause_previous_step = op.previous >= played.op;
    return;
  }
  for (const WaitEntry& w : r.body->waits_of(op)) {
    const int step = w.previous_step ? played.step - 1 : played.step;
    if (r.ends[static_cast<std::size_t>(step) * r.body->slots + w.slot] != at) continue;
    slice.cause = CauseKind::wait;
    slice.cause_op = w.op;
    slice.cause_previous_step = w.previous_step;
    return;
  }
  slice.cause = CauseKind::host;
  slice.cause_op = issue.held_by.op;
  slice.cause_previous_step = issue.held_by.op != no_op && issue.held_by.step < played.step;
}

void ReplayLoop::require_all_ended() const {
  for (const RankState& r : ranks_) {
    bool ended = r.next.step == 2 && r.pending.empty();
    for (std::size_t s = 0; s < tables_.streams(); ++s) ended = ended && r.lanes[s].end != unknown_time;
    if (!ended) bug(fmt::format("the replay stands still: rank {} waits for ever at op {}", r.rank, r.next.op));
  }
}

void ReplayLoop::count_op() {
  if (++result_.events % ops_between_interrupt_checks == 0 && interrupt_ != nullptr && *interrupt_ != 0) {
    throw Interrupted();
  }
}

}  // namespace meshweave
