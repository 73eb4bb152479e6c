// The interpreter: walks the program of some ranks and has a backend execute every op, in an order that the
// derived waits allow and nothing else constrains.
//
// An op may be launched when the op before it on its stream has ended and its waits have
// (sim/program/waits.h). A compute op ends when the backend returns; a communication ends when the backend
// says so. The order among the ops that may be launched is a setting: as issued, drawn at random, or with one
// stream behind all others, since a wait that is missing shows only in an order that needs it.
//
// The walk goes in rounds: each rank launches some ops, in parallel with the others, then communications
// move. Results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/time.h"
#include "sim/execute/backend.h"
#include "sim/program/liveness.h"
#include "sim/program/waits.h"

namespace meshweave {

enum class InterpretOrder : std::uint8_t {
  issue,       // of what may be launched, the op that was issued first; one op per stream and round
  random,      // any
  priorities,  // that of the stream that ranks highest, in an order that each rank draws once
  hold_back,   // as issued, but one stream of one rank only when nothing else can go on anywhere
};

struct InterpreterSettings {
  InterpretOrder order = InterpretOrder::issue;
  std::uint64_t seed = 0;  // of the random orders
  int held_rank = 0;       // of hold_back
  std::size_t held_stream = 0;
  int threads = 1;
  const InterruptFlag* interrupt = nullptr;  // not 0: stop with Interrupted (sim/base/error.h)
};

// When an op ran in the last step, in rounds.
struct OpRounds {
  std::uint32_t launched = 0;
  std::uint32_t matched = 0;  // communications: the round in which the last member came; else = launched
  std::uint32_t ended = 0;    // the first round in which it has ended
};

struct InterpreterRun {
  std::vector<std::vector<OpRounds>> rounds;  // by rank of the run, by op; of the last step
  std::string stuck;                          // empty, or which ops could not be launched
};

class Interpreter {
 public:
  // `waits` and `liveness` by body. Everything must outlive the interpreter.
  Interpreter(const Program& program, const std::vector<Waits>& waits, const std::vector<Liveness>& liveness,
              std::vector<int> ranks, Backend& backend);

  // Runs `steps` steps one behind the other, without a barrier between them. `after`, where given, is called
  // when an op has ended, serially only with one thread.
  InterpreterRun run(int steps, const InterpreterSettings& settings,
                     const std::function<void(const OpCall&)>& after = {}) const;

 private:
  class Walk;

  const Program& program_;
  const std::vector<Waits>& waits_;
  std::vector<int> ranks_;
  Backend& backend_;
  // By body and stream: its ops in issue order; by body: the storages that are free when an op is launched.
  std::vector<std::vector<std::vector<std::uint32_t>>> ops_of_stream_;
  std::vector<std::vector<std::vector<std::uint32_t>>> dying_;
  // Transient storages that last to the end of the step have one place in memory in all steps, where an
  // allocator would give the next step another one. By body and op: those that the op is the first to touch,
  // and the ops of the step before that must have ended by then.
  std::vector<std::vector<std::vector<std::uint32_t>>> lasting_;
  std::vector<std::vector<std::vector<std::uint32_t>>> border_;
};

}  // namespace meshweave
