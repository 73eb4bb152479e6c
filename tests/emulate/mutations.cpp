// Random mutations of lowered programs: each is caught by the verifier or by the emulator, or changes nothing
// that is read.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "sim/base/random.h"
#include "sim/execute/in_process_backend.h"
#include "sim/program/print.h"
#include "sim/program/verify.h"
#include "tests/emulate/cases.h"
#include "tests/emulate/prepared_program.h"
#include "tests/emulate/races.h"

using namespace meshweave;
using namespace meshweave::testing;

namespace {

enum class Kind { drop_op, drop_wait, other_operand, swap_operands, other_group, other_micro_batch, shift, scale };
constexpr int kinds = 8;
constexpr std::string_view kind_names[] = {"drop an op",  "drop a wait",       "another operand", "swap operands",
                                           "other group", "other micro-batch", "shift a range",   "scale"};

class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t index) : seed_(seed), stream_(stream_key("mutation") + index) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_bits(seed_, stream_, drawn_++) % n); }

 private:
  std::uint64_t seed_, stream_, drawn_ = 0;
};

struct Mutation {
  Kind kind = Kind::drop_op;
  std::uint32_t body = 0;
  std::uint32_t op = 0;
  std::string text;
};

OpSpec& own_spec(Program& program, Op& op) {
  const OpSpec copy = program.spec(op);
  op.spec = static_cast<std::uint32_t>(program.op_specs.size());
  program.op_specs.push_back(copy);
  return program.op_specs.back();
}

bool uses_scale(const OpSpec& spec) {
  using enum OpKind;
  if (spec.kind == batched_matmul) {
    const BatchedForm f = spec.attributes.batched;
    return f == BatchedForm::scores || f == BatchedForm::d_query || f == BatchedForm::d_key;
  }
  return spec.kind == attention || spec.kind == attention_backward || spec.kind == cross_entropy_loss ||
         spec.kind == cross_entropy_backward;
}

// Changes the program; false when the draw fits no op. `p` has its waits derived afterwards.
bool mutate(PreparedProgram& p, Dice& dice, Mutation& m) {
  Program& program = p.program;
  m.kind = static_cast<Kind>(dice.below(kinds));
  m.body = static_cast<std::uint32_t>(dice.below(program.bodies.size()));
  Body& body = program.bodies[m.body];
  m.op = static_cast<std::uint32_t>(dice.below(body.ops.size()));
  Op& op = body.ops[m.op];
  const OpSpec spec = program.spec(op);
  m.text = fmt::format("{}: body {} op {} {} \"{}\" {} layer {} micro-batch {}", kind_names[static_cast<int>(m.kind)],
                       m.body, m.op, name_of(spec.kind), spec.label, name_of(spec.phase), op.layer, op.micro_batch);
  // An operand of the op, and one of the same shape elsewhere.
  const auto replace_operand = [&]() {
    const std::size_t count = spec.reads.size() + spec.writes.size();
    if (count == 0) return false;
    std::uint32_t& operand = body.operands[op.first_operand + dice.below(count)];
    std::vector<std::uint32_t> alike;
    for (std::uint32_t t = 0; t < body.tensors.size(); ++t) {
      if (t != operand && body.tensors[t].spec == body.tensors[operand].spec) alike.push_back(t);
    }
    if (alike.empty()) return false;
    m.text += ", " + describe_tensor(program, body, operand);
    operand = alike[dice.below(alike.size())];
    m.text += " becomes " + describe_tensor(program, body, operand);
    return true;
  };
  switch (m.kind) {
    case Kind::drop_op: body.ops.erase(body.ops.begin() + m.op); break;
    case Kind::drop_wait: {
      const std::size_t count = p.waits[m.body].of(m.op).size();
      if (count == 0) return false;
      Waits& waits = p.waits[m.body];
      const std::uint32_t at = waits.first[m.op] + static_cast<std::uint32_t>(dice.below(count));
      waits.waits.erase(waits.waits.begin() + at);
      for (std::size_t i = m.op + 1; i < waits.first.size(); ++i) --waits.first[i];
      return true;
    }
    case Kind::other_operand:
      if (spec.kind == OpKind::point_to_point || !replace_operand()) return false;
      break;
    case Kind::swap_operands: {
      if (spec.reads.size() < 2) return false;
      std::uint32_t* first = &body.operands[op.first_operand + dice.below(spec.reads.size())];
      std::uint32_t* second = &body.operands[op.first_operand + dice.below(spec.reads.size())];
      if (*first == *second || body.tensors[*first].spec != body.tensors[*second].spec) return false;
      std::swap(*first, *second);
      break;
    }
    case Kind::other_group: {
      if (!is_collective(spec.kind) || program.groups.size() < 2) return false;
      OpSpec& own = own_spec(program, op);
      own.group =
          static_cast<std::uint16_t>((spec.group + 1 + dice.below(program.groups.size() - 1)) % program.groups.size());
      break;
    }
    case Kind::other_micro_batch: {
      if (op.micro_batch < 0 || spec.kind == OpKind::point_to_point) return false;
      // Another op of the same spec in another micro-batch changes its operands with this one.
      std::vector<std::uint32_t> others;
      for (std::uint32_t o = 0; o < body.ops.size(); ++o) {
        if (body.ops[o].spec == op.spec && body.ops[o].layer == op.layer && body.ops[o].micro_batch != op.micro_batch)
          others.push_back(o);
      }
      if (others.empty()) return false;
      Op& other = body.ops[others[dice.below(others.size())]];
      std::swap(op.first_operand, other.first_operand);
      break;
    }
    case Kind::shift: {
      const std::size_t count = spec.reads.size() + spec.writes.size();
      if (count == 0) return false;
      std::uint32_t& operand = body.operands[op.first_operand + dice.below(count)];
      Tensor moved = body.tensors[operand];
      if (!body.storages[moved.storage].persistent) return false;
      const std::int64_t bytes = program.tensor_specs[moved.spec].bytes();
      const std::int64_t unit = bytes_of(program.tensor_specs[moved.spec].dtype);
      if (moved.shard != no_shard) {
        moved.shard = no_shard;
      } else if (moved.offset + bytes + unit <= body.storages[moved.storage].bytes) {
        moved.offset += unit;
      } else if (moved.offset >= unit) {
        moved.offset -= unit;
      } else {
        return false;
      }
      operand = static_cast<std::uint32_t>(body.tensors.size());
      body.tensors.push_back(moved);
      break;
    }
    case Kind::scale:
      if (!uses_scale(spec)) return false;
      own_spec(program, op).attributes.scale *= 2;
      break;
  }
  p.derive();
  return true;
}

// A run of a program in issue order that keeps what every op writes, or puts NaN in place of some of it.
struct Place {
  int rank = 0, step = 0;
  std::uint32_t op = 0;
  std::uint32_t operand = 0;  // reads, then writes: what is read is lost before the op, what is written behind it
  auto operator<=>(const Place&) const = default;
};
using Places = std::set<Place>;
using Written = std::map<Place, std::vector<double>>;

// Calls `before` with each op that is launched.
class LookBefore : public Backend {
 public:
  LookBefore(Backend& inner, std::function<void(const OpCall&)> before) : inner_(inner), before_(std::move(before)) {}
  void compute(const OpCall& call) override { before_(call), inner_.compute(call); }
  void post(const OpCall& call) override { before_(call), inner_.post(call); }
  void poll(std::vector<OpCall>& ended) override { inner_.poll(ended); }
  void release(int rank, std::uint32_t storage) override { inner_.release(rank, storage); }

 private:
  Backend& inner_;
  std::function<void(const OpCall&)> before_;
};

class Probe {
 public:
  explicit Probe(const PreparedProgram& p) : p_(p) {
    settings_.seed = p.scenario.seed;
    settings_.vocabulary = p.scenario.model[0].shape.vocabulary;
    for (int r = 0; r < p.program.ranks(); ++r) ranks_.push_back(r);
  }

  Written run() const {
    Written written;
    play({}, [&](const Memory& memory, const Place& place, std::uint32_t tensor) {
      written[place] = memory.values(place.rank, tensor);
    });
    return written;
  }

  // Whether parameters and loss behind the run are the same with NaN in some places.
  bool same_without(const Places& places) const { return outcome({}) == outcome(places); }
  // Everything that the op writes.
  Places written_by(std::uint32_t body_id, std::uint32_t op) const {
    Places places;
    const Body& body = p_.program.bodies[body_id];
    const auto reads = static_cast<std::uint32_t>(p_.program.reads(body, body.ops[op]).size());
    for (const int rank : ranks_) {
      if (p_.program.body_of_rank[static_cast<std::size_t>(rank)] != body_id) continue;
      for (std::uint32_t w = 0; w < p_.program.writes(body, body.ops[op]).size(); ++w)
        places.insert({rank, 0, op, reads + w}), places.insert({rank, 1, op, reads + w});
    }
    return places;
  }

 private:
  using Memory = InProcessBackend<double>;

  // Loses `lost`, and calls look(memory, place, tensor) with all that is written.
  template <class Look>
  void play(const Places& lost, Look look) const {
    Memory memory(p_.program, p_.communicators, p_.liveness, settings_);
    const auto each = [&](const OpCall& call, bool reads, auto visit) {
      const Body& body = p_.program.bodies[p_.program.body_of_rank[static_cast<std::size_t>(call.rank)]];
      const Op& op = body.ops[call.op];
      const auto tensors = reads ? p_.program.reads(body, op) : p_.program.writes(body, op);
      Place place{call.rank, call.step, call.op, 0};
      if (!reads) place.operand = static_cast<std::uint32_t>(p_.program.reads(body, op).size());
      for (const std::uint32_t t : tensors) {
        if (lost.contains(place)) {
          memory.set_values(call.rank, t, std::vector<double>(memory.values(call.rank, t).size(), std::nan("")));
        }
        visit(place, t);
        ++place.operand;
      }
    };
    LookBefore backend(memory, [&](const OpCall& call) { each(call, true, [](const Place&, std::uint32_t) {}); });
    Interpreter(p_.program, p_.waits, p_.liveness, ranks_, backend).run(2, {}, [&](const OpCall& call) {
      each(call, false, [&](const Place& place, std::uint32_t t) { look(memory, place, t); });
    });
  }

  std::map<std::tuple<int, std::uint32_t>, std::vector<double>> outcome(const Places& lost) const {
    std::map<std::tuple<int, std::uint32_t>, std::vector<double>> last;
    play(lost, [&](const Memory& memory, const Place& place, std::uint32_t tensor) {
      const Body& body = p_.program.bodies[p_.program.body_of_rank[static_cast<std::size_t>(place.rank)]];
      const OpSpec& spec = p_.program.spec(body.ops[place.op]);
      if (spec.kind == OpKind::adam || p_.program.tensor_spec(body, tensor).content == Content::loss) {
        last[{place.rank, tensor}] = memory.values(place.rank, tensor);
      }
    });
    return last;
  }

  const PreparedProgram& p_;
  InProcessSettings settings_;
  std::vector<int> ranks_;
};

bool caught(const PreparedProgram& p, const Mutation& m, const ReferenceRun& reference) {
  if (m.kind != Kind::drop_wait && !verify(p.program, 1).empty()) return true;
  const auto differs = [&](const InterpreterSettings& order) {
    EmulationSettings settings;
    settings.interpreter = order;
    return !emulate(p.input(), settings, reference).matches;
  };
  if (m.kind == Kind::drop_wait) {
    // What is waited for comes as late as it can: its stream is held back, on one of the ranks.
    InterpreterSettings order;
    order.order = InterpretOrder::hold_back;
    const auto found = std::find(p.program.body_of_rank.begin(), p.program.body_of_rank.end(), m.body);
    order.held_rank = static_cast<int>(found - p.program.body_of_rank.begin());
    for (; order.held_stream < p.program.streams.size(); ++order.held_stream) {
      if (differs(order)) return true;
    }
  }
  InterpreterSettings order;
  if (differs(order)) return true;
  order.order = InterpretOrder::priorities;
  order.seed = 1;
  if (differs(order)) return true;
  return false;
}

// Why a mutation that was not caught changes nothing; empty when no reason is known.
std::string excuse(const PreparedProgram& original, const PreparedProgram& mutated, const Mutation& m) {
  const Probe before(original);
  if (m.kind == Kind::drop_wait) {
    const Races races = find_races(mutated);
    if (races.first.empty()) return "order only";
    Places places;
    for (const Races::Affected& a : races.affected) places.insert({a.call.rank, a.call.step, a.call.op, a.operand});
    if (before.same_without(places)) return "what another order changes is not read";
    UNSCOPED_INFO(races.first);
    return {};
  }
  if (before.same_without(before.written_by(m.body, m.op))) return "what the op writes is not read";
  if (m.kind == Kind::drop_op) {
    // An op whose outputs hold their values already, as a fill of zeros by zeros.
    return {};
  }
  // The maximum keeps the exponentials in range; the loss is the same for any other value.
  const Program& program = original.program;
  if (m.kind == Kind::other_operand && program.spec(program.bodies[m.body].ops[m.op]).kind == OpKind::cross_entropy_max)
    return "a shift that cancels";
  const Written a = before.run();
  const Written b = Probe(mutated).run();
  // Up to rounding: a sum of terms that cancel in truth is 1e-17, whatever it is made of.
  constexpr double rounding = 1e-13;
  Places different;
  for (const auto& [key, values] : a) {
    const auto found = b.find(key);
    REQUIRE(found != b.end());
    bool same = true;
    for (std::size_t e = 0; e < values.size(); ++e) {
      same &= values[e] == found->second[e] ||
              std::abs(values[e] - found->second[e]) <= rounding * std::max(1.0, std::abs(values[e]));
    }
    if (!same) different.insert(key);
  }
  if (different.empty()) return "the same values";
  return before.same_without(different) ? "what differs is not read" : std::string();
}

}  // namespace

TEST_CASE("Two thousand mutations are caught, or change nothing that is read") {
  constexpr std::uint64_t seed = 20261203;
  constexpr std::size_t wanted = 2000;
  constexpr std::size_t per_program = 40;
  std::map<std::string, int> tried, survived;
  std::size_t done = 0;
  for (std::uint64_t c = 0; done < wanted; ++c) {
    Case settings;
    REQUIRE(draw_case(seed, c, {}, 100'000, settings));
    const Scenario scenario = scenario_of(settings);
    const PreparedProgram original(scenario);
    if (original.program.ranks() > 8) continue;
    const ReferenceRun reference = run_reference(scenario, 2);
    for (std::size_t i = 0; i < per_program; ++i) {
      PreparedProgram mutated(scenario);
      Dice dice(seed, c * 1'000'000 + i);
      Mutation m;
      if (!mutate(mutated, dice, m)) continue;
      ++done;
      ++tried[std::string(kind_names[static_cast<int>(m.kind)])];
      if (caught(mutated, m, reference)) continue;
      const std::string reason = excuse(original, mutated, m);
      ++survived[std::string(kind_names[static_cast<int>(m.kind)]) + ": " + reason];
      INFO(describe(settings));
      INFO(m.text);
      if (std::getenv("SHOW_SURVIVORS") != nullptr) WARN(describe(settings) << "\n" << m.text << "\n" << reason);
      CHECK(reason != "");
    }
  }
  for (const auto& [what, count] : tried) WARN(what << ": " << count << " tried");
  for (const auto& [what, count] : survived) WARN(what << ": " << count << " survived");
}
