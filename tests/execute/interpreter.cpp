// The interpreter walks every op once per step, in orders that the waits allow, and frees what the simulators
// free.
#include "sim/execute/interpreter.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "sim/execute/arena.h"
#include "sim/lower/lower.h"
#include "tests/support/dense_scenario.h"

using namespace meshweave;

namespace {

// A backend without values: communications end at the next poll after all ranks have posted the call with the
// same name.
struct RecordingBackend : Backend {
  const Program& program;
  std::vector<std::vector<OpCall>> calls;                          // by rank, in order
  std::map<std::pair<int, std::uint32_t>, std::int64_t> released;  // (rank, op launched next) → bytes
  std::vector<std::int64_t> open_release;                          // by rank: bytes released since the last call
  std::vector<OpCall> posted;

  explicit RecordingBackend(const Program& p)
      : program(p), calls(static_cast<std::size_t>(p.ranks())), open_release(static_cast<std::size_t>(p.ranks())) {}

  void note(const OpCall& call) {
    const auto rank = static_cast<std::size_t>(call.rank);
    calls[rank].push_back(call);
    if (call.step == 0) released[{call.rank, call.op}] = open_release[rank];
    open_release[rank] = 0;
  }
  void compute(const OpCall& call) override { note(call); }
  void post(const OpCall& call) override {
    note(call);
    posted.push_back(call);
  }
  void poll(std::vector<OpCall>& ended) override {
    ended.insert(ended.end(), posted.begin(), posted.end());
    posted.clear();
  }
  void release(int rank, std::uint32_t storage) override {
    const Body& body = program.bodies[program.body_of_rank[static_cast<std::size_t>(rank)]];
    open_release[static_cast<std::size_t>(rank)] += body.storages[storage].bytes;
  }
};

struct Prepared {
  Program program;
  std::vector<Waits> waits;
  std::vector<Liveness> liveness;
  std::vector<int> ranks;

  explicit Prepared(const testing::DenseOptions& o) {
    const Scenario s = testing::dense_scenario(o);
    program = lower(s, make_plan(s));
    for (const Body& body : program.bodies) {
      waits.push_back(derive_waits(program, body));
      liveness.push_back(derive_liveness(program, body, waits.back()));
    }
    for (int rank = 0; rank < program.ranks(); ++rank) ranks.push_back(rank);
  }
};

testing::DenseOptions several_axes() {
  testing::DenseOptions o;
  o.tp = o.pp = o.dp = 2;
  o.sequence_parallel = true;
  o.zero = 1;
  o.micro_batches = 4;
  o.recompute = Recompute::selective;
  return o;
}

}  // namespace

TEST_CASE("Every op runs once per step, behind what it waits for") {
  const Prepared p(several_axes());
  for (const InterpretOrder order : {InterpretOrder::issue, InterpretOrder::random, InterpretOrder::priorities}) {
    RecordingBackend backend(p.program);
    const Interpreter interpreter(p.program, p.waits, p.liveness, p.ranks, backend);
    InterpreterSettings settings;
    settings.order = order;
    settings.seed = 5;
    CHECK(interpreter.run(2, settings).stuck.empty());
    for (const int rank : p.ranks) {
      const std::uint32_t b = p.program.body_of_rank[static_cast<std::size_t>(rank)];
      const auto& calls = backend.calls[static_cast<std::size_t>(rank)];
      REQUIRE(calls.size() == 2 * p.program.bodies[b].ops.size());
      std::set<std::pair<int, std::uint32_t>> seen;
      for (const OpCall& call : calls) {
        bool behind = true;
        for (const Wait& w : p.waits[b].of(call.op)) {
          const int step = call.step - (w.previous_step ? 1 : 0);
          behind &= step < 0 || seen.contains({step, w.op});
        }
        CHECK(behind);
        CHECK(seen.insert({call.step, call.op}).second);
      }
    }
  }
}

TEST_CASE("Random orders differ from the order of issue, and from each other") {
  const Prepared p(several_axes());
  const auto order_of = [&](InterpretOrder order, std::uint64_t seed) {
    RecordingBackend backend(p.program);
    InterpreterSettings settings;
    settings.order = order;
    settings.seed = seed;
    Interpreter(p.program, p.waits, p.liveness, p.ranks, backend).run(1, settings);
    std::vector<std::uint32_t> ops;
    for (const OpCall& call : backend.calls[0]) ops.push_back(call.op);
    return ops;
  };
  CHECK(order_of(InterpretOrder::random, 1) != order_of(InterpretOrder::issue, 0));
  CHECK(order_of(InterpretOrder::random, 1) != order_of(InterpretOrder::random, 2));
  CHECK(order_of(InterpretOrder::random, 1) == order_of(InterpretOrder::random, 1));
}

TEST_CASE("The bytes alive at each op are those that the simulators count") {
  // Born with the first op that touches a storage, counted here from the operands; released when the
  // interpreter says.
  const Prepared p(several_axes());
  RecordingBackend backend(p.program);
  Interpreter(p.program, p.waits, p.liveness, p.ranks, backend).run(1, {});
  for (const int rank : p.ranks) {
    const std::uint32_t b = p.program.body_of_rank[static_cast<std::size_t>(rank)];
    const Body& body = p.program.bodies[b];
    std::int64_t alive = 0;
    std::set<std::uint32_t> touched;
    for (std::uint32_t s = 0; s < body.storages.size(); ++s) {
      if (body.storages[s].persistent) alive += body.storages[s].bytes, touched.insert(s);
    }
    const auto& curve = p.liveness[b].curve;
    std::size_t at = 0;
    bool equal = true;
    for (std::uint32_t op = 0; op < body.ops.size(); ++op) {
      alive -= backend.released[{rank, op}];
      const auto touch = [&](std::uint32_t t) {
        if (touched.insert(body.tensors[t].storage).second) alive += body.storages[body.tensors[t].storage].bytes;
      };
      for (const std::uint32_t t : p.program.reads(body, body.ops[op])) touch(t);
      for (const std::uint32_t t : p.program.writes(body, body.ops[op])) touch(t);
      while (at + 1 < curve.size() && curve[at + 1].op <= op) ++at;
      std::int64_t counted = 0;
      for (const std::int64_t bytes : curve[at].bytes) counted += bytes;
      equal &= counted == alive;
    }
    CHECK(equal);
  }
}

TEST_CASE("What stands still is named") {
  const Prepared p(several_axes());
  struct NeverEnds : RecordingBackend {
    using RecordingBackend::RecordingBackend;
    void poll(std::vector<OpCall>&) override {}
  } backend(p.program);
  const std::string stuck = Interpreter(p.program, p.waits, p.liveness, p.ranks, backend).run(1, {}).stuck;
  CHECK(stuck.find("waits for its partners") != std::string::npos);
}

TEST_CASE("An arena uses bytes again when they are free") {
  // The example of the header: c takes the place of a; d lives to the end and keeps a place of its own.
  const std::vector<std::int64_t> sizes{8, 4, 8, 2};
  const std::vector<StorageLife> lives{{0, 2}, {1, 3}, {2, 3}, {1, 4}};
  const ArenaPlan plan = plan_arena(sizes, lives, 4);
  CHECK(plan.address[3] == 0);
  CHECK(plan.address[0] == 2);
  CHECK(plan.address[1] == 10);
  CHECK(plan.address[2] == 2);
  CHECK(plan.size == 14);
}
