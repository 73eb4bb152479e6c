// What the interpreter (interpreter.h) asks of whoever holds the memory and does the arithmetic.
//
// The in-process backend (in_process_backend.h) holds all ranks in one process. A backend may as well hold
// one rank: then its communications end when the others' processes have done their part.
#pragma once

#include <cstdint>
#include <vector>

namespace meshweave {

// One execution of an op.
struct OpCall {
  int rank = 0;
  int step = 0;          // training step, from 0
  std::uint32_t op = 0;  // index into the ops of the rank's body
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Runs a compute op to its end. Called for different ranks at the same time.
  virtual void compute(const OpCall& call) = 0;
  // The rank has reached a communication. Called for different ranks at the same time.
  virtual void post(const OpCall& call) = 0;
  // Adds the communications that have ended, on every member or message end, since the call before.
  virtual void poll(std::vector<OpCall>& ended) = 0;
  // A transient storage of the rank is free: its bytes may be used again.
  virtual void release(int rank, std::uint32_t storage) = 0;
};

}  // namespace meshweave
