#include "sim/execute/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/base/error.h"
#include "sim/base/parallel_for.h"
#include "sim/base/random.h"

namespace meshweave {

namespace {

constexpr std::uint32_t no_ready = 0xffffffff;

using OpsOfStream = std::vector<std::vector<std::uint32_t>>;

// How far one rank has come.
struct RankProgress {
  int rank = 0;
  const OpsOfStream* ops_of_stream = nullptr;
  const Waits* waits = nullptr;
  const std::vector<std::vector<std::uint32_t>>* border = nullptr;  // by op, of the step before
  std::vector<std::uint32_t> ended;                                 // by op: in how many steps it has ended
  std::vector<std::size_t> launched;                                // by stream: ops, over all steps
  std::vector<bool> busy;            // by stream: its last launched communication has not ended
  std::vector<std::size_t> streams;  // in the order of priority
  std::uint64_t drawn = 0;           // random numbers so far
  std::size_t launches = 0;

  std::size_t step(std::size_t stream) const { return launched[stream] / (*ops_of_stream)[stream].size(); }

  // The op that is next on a stream and may be launched.
  std::uint32_t ready(std::size_t stream, std::size_t steps) const {
    const std::vector<std::uint32_t>& ops = (*ops_of_stream)[stream];
    if (busy[stream] || ops.empty() || step(stream) == steps) return no_ready;
    const std::uint32_t op = ops[launched[stream] % ops.size()];
    for (const Wait& w : waits->of(op)) {
      if (ended[w.op] < step(stream) + (w.previous_step ? 0 : 1)) return no_ready;
    }
    for (const std::uint32_t before : (*border)[op]) {
      if (ended[before] < step(stream)) return no_ready;
    }
    return op;
  }
};

}  // namespace

class Interpreter::Walk {
 public:
  Walk(const Interpreter& of, int steps, const InterpreterSettings& settings,
       const std::function<void(const OpCall&)>& after)
      : of_(of), steps_(static_cast<std::size_t>(steps)), settings_(settings), after_(after) {
    index_of_rank_.resize(static_cast<std::size_t>(of.program_.ranks()));
    for (const int rank : of.ranks_) add(rank);
  }

  InterpreterRun run() {
    WorkerTeam team(std::min<int>(settings_.threads, static_cast<int>(all_.size())));
    const std::function<void(std::size_t)> turn = [this](std::size_t i) {
      switch (settings_.order) {
        case InterpretOrder::issue:
        case InterpretOrder::hold_back: return take_all_ready(all_[i]);
        case InterpretOrder::random:
        case InterpretOrder::priorities: return take_some(all_[i]);
      }
    };
    std::vector<OpCall> ended;
    std::size_t done = 0;
    for (round_ = 0; done < total_; ++round_) {
      if (settings_.interrupt != nullptr && *settings_.interrupt != 0) throw Interrupted();
      const std::size_t before = launches();
      team.run(all_.size(), turn);
      ended.clear();
      of_.backend_.poll(ended);
      for (const OpCall& call : ended) end_communication(call);
      if (launches() == before && ended.empty() && !take_held()) {
        result_.stuck = describe_stuck();
        break;
      }
      done = 0;
      for (const RankProgress& p : all_) done += p.launches;
      for (const RankProgress& p : all_) {
        done -= static_cast<std::size_t>(std::count(p.busy.begin(), p.busy.end(), true));
      }
    }
    return std::move(result_);
  }

 private:
  void add(int rank) {
    index_of_rank_[static_cast<std::size_t>(rank)] = all_.size();
    const std::size_t streams = of_.program_.streams.size();
    const std::uint32_t body = of_.program_.body_of_rank[static_cast<std::size_t>(rank)];
    RankProgress& p = all_.emplace_back();
    p.rank = rank;
    p.ops_of_stream = &of_.ops_of_stream_[body];
    p.waits = &of_.waits_[body];
    p.border = &of_.border_[body];
    p.ended.resize(of_.program_.bodies[body].ops.size());
    p.launched.resize(streams);
    p.busy.resize(streams);
    p.streams.resize(streams);
    std::iota(p.streams.begin(), p.streams.end(), std::size_t{0});
    for (std::size_t s = streams; s-- > 1;) std::swap(p.streams[s], p.streams[draw(p, s + 1)]);
    total_ += p.ended.size() * steps_;
    result_.rounds.emplace_back(p.ended.size());
  }

  std::size_t launches() const {
    std::size_t sum = 0;
    for (const RankProgress& p : all_) sum += p.launches;
    return sum;
  }

  std::size_t draw(RankProgress& p, std::size_t below) const {
    const std::uint64_t stream = stream_key("interpreter") + static_cast<std::uint64_t>(p.rank);
    return static_cast<std::size_t>(random_bits(settings_.seed, stream, p.drawn++) % below);
  }

  // True for a compute op, which has ended then.
  bool launch(RankProgress& p, std::size_t stream, std::uint32_t op) {
    const std::uint32_t body = of_.program_.body_of_rank[static_cast<std::size_t>(p.rank)];
    const OpCall call{p.rank, static_cast<int>(p.step(stream)), op};
    ++p.launched[stream];
    ++p.launches;
    result_.rounds[index_of_rank_[static_cast<std::size_t>(p.rank)]][op] = {round_, round_, round_ + 1};
    if (call.step > 0) {
      for (const std::uint32_t storage : of_.lasting_[body][op]) of_.backend_.release(p.rank, storage);
    }
    if (is_communication(of_.program_.spec(of_.program_.bodies[body].ops[op]).kind)) {
      p.busy[stream] = true;
      of_.backend_.post(call);
      return false;
    }
    for (const std::uint32_t storage : of_.dying_[body][op]) of_.backend_.release(p.rank, storage);
    of_.backend_.compute(call);
    if (after_) after_(call);
    return true;
  }

  // One op per stream, of those that may be launched when the round begins.
  void take_all_ready(RankProgress& p) {
    std::vector<std::pair<std::uint32_t, std::size_t>> ready;
    for (std::size_t s = 0; s < p.launched.size(); ++s) {
      if (settings_.order == InterpretOrder::hold_back && p.rank == settings_.held_rank && s == settings_.held_stream)
        continue;
      const std::uint32_t op = p.ready(s, steps_);
      if (op != no_ready) ready.emplace_back(op, s);
    }
    std::sort(ready.begin(), ready.end());
    for (const auto& [op, stream] : ready) {
      if (launch(p, stream, op)) ++p.ended[op];
    }
  }

  // The next op of the stream that is held back; false when it cannot go on either.
  bool take_held() {
    if (settings_.order != InterpretOrder::hold_back) return false;
    RankProgress& p = all_[index_of_rank_[static_cast<std::size_t>(settings_.held_rank)]];
    const std::uint32_t op = p.ready(settings_.held_stream, steps_);
    if (op == no_ready) return false;
    if (launch(p, settings_.held_stream, op)) ++p.ended[op];
    return true;
  }

  // A few ops, each drawn among those that may be launched then.
  void take_some(RankProgress& p) {
    constexpr std::size_t most = 8;
    std::vector<std::size_t> ready;
    for (std::size_t ops = 1 + draw(p, most); ops > 0; --ops) {
      ready.clear();
      for (const std::size_t s : p.streams) {
        if (p.ready(s, steps_) != no_ready) ready.push_back(s);
      }
      if (ready.empty()) return;
      const std::size_t stream =
          settings_.order == InterpretOrder::priorities ? ready.front() : ready[draw(p, ready.size())];
      const std::uint32_t op = p.ready(stream, steps_);
      if (launch(p, stream, op)) ++p.ended[op];
    }
  }

  void end_communication(const OpCall& call) {
    const std::size_t index = index_of_rank_[static_cast<std::size_t>(call.rank)];
    RankProgress& p = all_[index];
    const Body& body = of_.program_.bodies[of_.program_.body_of_rank[static_cast<std::size_t>(call.rank)]];
    p.busy[of_.program_.spec(body.ops[call.op]).stream] = false;
    ++p.ended[call.op];
    OpRounds& rounds = result_.rounds[index][call.op];
    rounds.matched = round_;
    rounds.ended = round_ + 1;
    if (after_) after_(call);
  }

  // The first ops that stand still, for people.
  std::string describe_stuck() const {
    std::string text;
    int listed = 0;
    for (const RankProgress& p : all_) {
      for (std::size_t s = 0; s < p.launched.size() && listed < 8; ++s) {
        const std::vector<std::uint32_t>& ops = (*p.ops_of_stream)[s];
        if (ops.empty() || (p.step(s) == steps_ && !p.busy[s])) continue;
        const std::size_t at = p.busy[s] ? p.launched[s] - 1 : p.launched[s];
        const Body& body = of_.program_.bodies[of_.program_.body_of_rank[static_cast<std::size_t>(p.rank)]];
        const std::uint32_t op = ops[at % ops.size()];
        text += fmt::format("{}rank {} op {} ({}) {}", listed++ == 0 ? "" : "; ", p.rank, op,
                            of_.program_.spec(body.ops[op]).label, p.busy[s] ? "waits for its partners" : "waits");
      }
    }
    return text;
  }

  const Interpreter& of_;
  std::size_t steps_;
  const InterpreterSettings& settings_;
  const std::function<void(const OpCall&)>& after_;
  std::vector<RankProgress> all_;
  std::vector<std::size_t> index_of_rank_;
  std::size_t total_ = 0;  // executions
  std::uint32_t round_ = 0;
  InterpreterRun result_;
};

Interpreter::Interpreter(const Program& program, const std::vector<Waits>& waits, const std::vector<Liveness>& liveness,
                         std::vector<int> ranks, Backend& backend)
    : program_(program), waits_(waits), ranks_(std::move(ranks)), backend_(backend) {
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
    const Body& body = program.bodies[b];
    auto& streams = ops_of_stream_.emplace_back(program.streams.size());
    for (std::uint32_t op = 0; op < body.ops.size(); ++op) streams[program.spec(body.ops[op]).stream].push_back(op);
    auto& dying = dying_.emplace_back(body.ops.size());
    const std::vector<StorageLife>& lives = liveness[b].lives;
    for (std::uint32_t s = 0; s < lives.size(); ++s) {
      if (!body.storages[s].persistent && lives[s].dies < body.ops.size()) dying[lives[s].dies].push_back(s);
    }
    auto& lasting = lasting_.emplace_back(body.ops.size());
    auto& border = border_.emplace_back(body.ops.size());
    const auto lasts = [&](std::uint32_t s) {
      return !body.storages[s].persistent && lives[s].dies == body.ops.size();
    };
    for (std::uint32_t s = 0; s < lives.size(); ++s) {
      if (lasts(s)) lasting[lives[s].born].push_back(s);
    }
    const auto guard = [&](std::uint32_t tensor, std::uint32_t op) {
      const std::uint32_t storage = body.tensors[tensor].storage;
      if (lasts(storage)) border[lives[storage].born].push_back(op);
    };
    for (std::uint32_t op = 0; op < body.ops.size(); ++op) {
      for (const std::uint32_t t : program.reads(body, body.ops[op])) guard(t, op);
      for (const std::uint32_t t : program.writes(body, body.ops[op])) guard(t, op);
    }
  }
}

InterpreterRun Interpreter::run(int steps, const InterpreterSettings& settings,
                                const std::function<void(const OpCall&)>& after) const {
  return Walk(*this, steps, settings, after).run();
}

}  // namespace meshweave
