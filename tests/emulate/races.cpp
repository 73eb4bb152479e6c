#include "tests/emulate/races.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "sim/base/error.h"
#include "sim/execute/in_process_backend.h"
#include "sim/program/print.h"
#include "tests/emulate/cases.h"

namespace meshweave::testing {

namespace {

using Clock = std::vector<std::uint32_t>;  // by rank and stream: how many of its executions have ended

using Range = InProcessBackend<double>::Range;
enum class Touch : std::uint8_t { read, write, release };

// The latest that touched an element of memory.
struct Latest {
  OpCall writer{0, -1, 0};
  std::vector<OpCall> readers;  // since the writer
};

// What an execution of an op touches.
struct Access {
  OpCall call;
  Range range;
  Touch touch = Touch::read;
  std::uint32_t operand = 0;  // reads, then writes
};

class RaceDetector : public Backend {
 public:
  explicit RaceDetector(const PreparedProgram& p)
      : p_(p), memory_(p.program, p.communicators, p.liveness, settings_of(p)) {
    streams_ = p.program.streams.size();
    executions_.resize(static_cast<std::size_t>(p.program.ranks()) * streams_);
    for (int rank = 0; rank < p.program.ranks(); ++rank) {
      ranks_.push_back(rank);
      std::int64_t elements = 0;
      for (std::uint32_t s = 0; s < body_of(rank).storages.size(); ++s) {
        const auto [first, count] = memory_.range_of_storage(rank, s);
        elements = std::max(elements, first + count);
      }
      latest_.emplace_back(static_cast<std::size_t>(elements));
    }
    accesses_.resize(ranks_.size());
    racing_.resize(ranks_.size());
    released_.resize(ranks_.size());
    for (const Body& body : p.program.bodies) borders_.push_back(border_of(body));
  }

  Races run() {
    const InterpreterRun done = Interpreter(p_.program, p_.waits, p_.liveness, ranks_, *this).run(2, {});
    ensure(done.stuck.empty(), "a program that stands still has no order to speak of");
    for (const int rank : ranks_) {
      for (const std::int64_t element : racing_[static_cast<std::size_t>(rank)]) find_all(rank, element);
    }
    return races_;
  }

  void compute(const OpCall& call) override {
    launch(call);
    memory_.compute(call);
    ended_[key(call)] = own_tick(call, launched_.at(key(call)));
  }

  void post(const OpCall& call) override {
    launch(call);
    memory_.post(call);
    for (const Message& m : messages_of(call)) ends_[message_key(call, m, m.send)] = call;
  }

  void poll(std::vector<OpCall>& ended) override {
    const std::size_t before = ended.size();
    memory_.poll(ended);
    for (std::size_t i = before; i < ended.size(); ++i) {
      Clock clock = launched_.at(key(ended[i]));
      for (const OpCall& partner : partners_of(ended[i], std::span(ended).subspan(before)))
        join(clock, launched_.at(key(partner)));
      ended_[key(ended[i])] = own_tick(ended[i], clock);
    }
  }

  void release(int rank, std::uint32_t storage) override {
    released_[static_cast<std::size_t>(rank)].push_back(storage);
    memory_.release(rank, storage);
  }

 private:
  using Key = std::tuple<int, int, std::uint32_t>;  // rank, step, op

  static InProcessSettings settings_of(const PreparedProgram& p) {
    InProcessSettings settings;
    settings.seed = p.scenario.seed;
    settings.vocabulary = p.scenario.model[0].shape.vocabulary;
    return settings;
  }
  static Key key(const OpCall& c) { return {c.rank, c.step, c.op}; }
  static void join(Clock& clock, const Clock& other) {
    for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
  }

  const Body& body_of(int rank) const { return p_.program.bodies[body_id(rank)]; }
  std::uint32_t body_id(int rank) const { return p_.program.body_of_rank[static_cast<std::size_t>(rank)]; }
  const OpSpec& spec_of(const OpCall& c) const { return p_.program.spec(body_of(c.rank).ops[c.op]); }
  std::size_t stream_of(const OpCall& c) const {
    return static_cast<std::size_t>(c.rank) * streams_ + spec_of(c).stream;
  }
  std::span<const Message> messages_of(const OpCall& c) const {
    return p_.program.messages(body_of(c.rank), body_of(c.rank).ops[c.op]);
  }
  // From, to, tag, and whose end.
  std::tuple<int, int, std::uint32_t, bool> message_key(const OpCall& c, const Message& m, bool sender) const {
    const int peer = p_.program.peer_rank(c.rank, m.peer);
    return {m.send ? c.rank : peer, m.send ? peer : c.rank, m.tag, sender};
  }

  // A storage that lasts to the end of the step has one place in all steps: by op, those of the step before
  // that touch what this op is the first to touch.
  std::vector<std::vector<std::uint32_t>> border_of(const Body& body) const {
    const std::vector<StorageLife>& lives =
        p_.liveness[static_cast<std::size_t>(&body - p_.program.bodies.data())].lives;
    std::vector<std::vector<std::uint32_t>> border(body.ops.size());
    for (std::uint32_t op = 0; op < body.ops.size(); ++op) {
      const auto touch = [&](std::uint32_t tensor) {
        const std::uint32_t s = body.tensors[tensor].storage;
        if (!body.storages[s].persistent && lives[s].dies == body.ops.size()) border[lives[s].born].push_back(op);
      };
      for (const std::uint32_t t : p_.program.reads(body, body.ops[op])) touch(t);
      for (const std::uint32_t t : p_.program.writes(body, body.ops[op])) touch(t);
    }
    return border;
  }

  Clock own_tick(const OpCall& call, Clock clock) {
    clock[stream_of(call)] = std::max(clock[stream_of(call)], number_.at(key(call)));
    return clock;
  }

  // Without delay, whoever comes to one instance of a group on a stream ends in the same poll.
  std::vector<OpCall> partners_of(const OpCall& call, std::span<const OpCall> ended) const {
    std::vector<OpCall> partners;
    const OpSpec& spec = spec_of(call);
    if (is_collective(spec.kind)) {
      const Communicators::Of& group = p_.communicators.by_group[spec.group];
      const auto instance = [&](int rank) { return group.instance_of[static_cast<std::size_t>(rank)]; };
      for (const OpCall& other : ended) {
        const OpSpec& s = spec_of(other);
        if (is_collective(s.kind) && s.group == spec.group && s.stream == spec.stream &&
            instance(other.rank) == instance(call.rank))
          partners.push_back(other);
      }
      return partners;
    }
    for (const Message& m : messages_of(call)) partners.push_back(ends_.at(message_key(call, m, !m.send)));
    return partners;
  }

  void launch(const OpCall& call) {
    Clock clock(executions_.size(), 0);
    std::vector<OpCall>& own_stream = executions_[stream_of(call)];
    if (!own_stream.empty()) join(clock, ended_.at(key(own_stream.back())));
    for (const Wait& w : p_.waits[body_id(call.rank)].of(call.op)) {
      const int step = call.step - (w.previous_step ? 1 : 0);
      if (step >= 0) join(clock, ended_.at({call.rank, step, w.op}));
    }
    if (call.step > 0) {
      for (const std::uint32_t op : borders_[body_id(call.rank)][call.op])
        join(clock, ended_.at({call.rank, call.step - 1, op}));
    }
    own_stream.push_back(call);
    number_[key(call)] = static_cast<std::uint32_t>(own_stream.size());
    launched_[key(call)] = clock;

    for (const std::uint32_t s : released_[static_cast<std::size_t>(call.rank)])
      touch({call, memory_.range_of_storage(call.rank, s), Touch::release, 0});
    released_[static_cast<std::size_t>(call.rank)].clear();
    const Body& body = body_of(call.rank);
    std::uint32_t operand = 0;
    const auto touch_all = [&](std::span<const std::uint32_t> tensors, Touch how) {
      for (const std::uint32_t t : tensors) {
        for (const Range& range : memory_.ranges_of_tensor(call.rank, t)) touch({call, range, how, operand});
        ++operand;
      }
    };
    touch_all(p_.program.reads(body, body.ops[call.op]), Touch::read);
    touch_all(p_.program.writes(body, body.ops[call.op]), Touch::write);
  }

  // Comes in an order that the program allows. Whatever races with an element, something races with the
  // latest that touched it.
  void touch(const Access& access) {
    const OpCall& call = access.call;
    const auto rank = static_cast<std::size_t>(call.rank);
    accesses_[rank].push_back(access);
    for (std::int64_t e = access.range.first; e < access.range.first + access.range.second; ++e) {
      Latest& latest = latest_[rank][static_cast<std::size_t>(e)];
      if (!are_ordered(latest.writer, call)) racing_[rank].insert(e);
      if (access.touch == Touch::read) {
        if (latest.readers.empty() || key(latest.readers.back()) != key(call)) latest.readers.push_back(call);
        continue;
      }
      for (const OpCall& reader : latest.readers) {
        if (!are_ordered(reader, call)) racing_[rank].insert(e);
      }
      latest.readers.clear();
      latest.writer = call;
    }
  }

  bool are_ordered(const OpCall& before, const OpCall& call) const {
    if (before.step < 0 || key(before) == key(call)) return true;
    return launched_.at(key(call))[stream_of(before)] >= number_.at(key(before));
  }

  // All races for an element.
  void find_all(int rank, std::int64_t element) {
    std::vector<const Access*> own;
    for (const Access& a : accesses_[static_cast<std::size_t>(rank)]) {
      if (element >= a.range.first && element < a.range.first + a.range.second) own.push_back(&a);
    }
    for (std::size_t j = 0; j < own.size(); ++j) {
      for (std::size_t i = 0; i < j; ++i) {
        const Access &a = *own[i], &b = *own[j];
        if ((a.touch == Touch::read && b.touch == Touch::read) || are_ordered(a.call, b.call)) continue;
        if (races_.first.empty()) races_.first = describe(a, b);
        const bool reads = a.touch == Touch::read || b.touch == Touch::read;
        for (const Access* x : {&a, &b}) {
          if (x->touch == (reads ? Touch::read : Touch::write)) races_.affected.push_back({x->call, x->operand});
        }
      }
    }
  }

  std::string describe(const Access& a, const Access& b) const {
    constexpr std::string_view names[] = {"reads", "writes", "releases"};
    const auto text = [&](const Access& x) {
      return fmt::format("step {} op {} \"{}\" {}", x.call.step, x.call.op, spec_of(x.call).label,
                         names[static_cast<int>(x.touch)]);
    };
    return fmt::format("rank {}: {} what {}", a.call.rank, text(a), text(b));
  }

  const PreparedProgram& p_;
  InProcessBackend<double> memory_;
  std::size_t streams_ = 0;
  std::vector<int> ranks_;
  std::vector<std::vector<std::vector<std::uint32_t>>> borders_;  // by body and op
  std::vector<std::vector<OpCall>> executions_;                   // by rank and stream
  std::map<Key, Clock> launched_, ended_;
  std::map<Key, std::uint32_t> number_;  // on its stream, from 1
  std::map<std::tuple<int, int, std::uint32_t, bool>, OpCall> ends_;
  std::vector<std::vector<std::uint32_t>> released_;  // by rank, since the launch before
  std::vector<std::vector<Latest>> latest_;           // by rank and element
  std::vector<std::vector<Access>> accesses_;         // by rank
  std::vector<std::set<std::int64_t>> racing_;        // by rank: elements
  Races races_;
};

}  // namespace

Races find_races(const PreparedProgram& p) { return RaceDetector(p).run(); }

}  // namespace meshweave::testing

using namespace meshweave;
using namespace meshweave::testing;

TEST_CASE("Lowered programs have no races") {
  constexpr std::uint64_t seed = 20261130;
  int checked = 0;
  for (std::uint64_t i = 0; checked < 50; ++i) {
    Case c;
    REQUIRE(draw_case(seed, i, {}, 100'000, c));
    const PreparedProgram p(scenario_of(c));
    if (p.program.ranks() > 8) continue;
    ++checked;
    INFO(describe(c));
    CHECK(find_races(p).first == "");
  }
}

TEST_CASE("A program without its waits has races") {
  Case c{};
  c[0] = c[3] = c[6] = 1;  // tp 2, pp 2, dp 2
  PreparedProgram p(scenario_of(c));
  CHECK(find_races(p).first == "");
  for (Waits& waits : p.waits) {
    std::fill(waits.first.begin(), waits.first.end(), 0);
    waits.waits.clear();
  }
  CHECK(find_races(p).first != "");
}
