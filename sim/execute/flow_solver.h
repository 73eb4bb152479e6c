// The part of the simgrid network that SimGrid does: flows over given links, started at the present time, and
// the clock. All calls of SimGrid are in sim/execute/simgrid, which is a module of its own: with SimGrid come
// some 25 libraries that take longer to load (50 ms) than an analytic run takes, so it is loaded when it is
// asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace meshweave {

class FlowSolver {
 public:
  virtual ~FlowSolver() = default;

  // Starts a flow of `bytes` at most `cap` bytes/s fast.
  virtual void start(std::uint32_t flow, const std::vector<std::uint32_t>& links, double bytes, double cap) = 0;
  virtual std::size_t active() const = 0;
  virtual double clock() const = 0;  // seconds
  // Moves the clock to `limit`, or to the first time before it at which flows end, which are appended to
  // `ended`. A negative limit means none.
  virtual void advance(double limit, std::vector<std::uint32_t>& ended) = 0;
};

// Loads the module, once per process; processes forked later have it. Throws IoError where it cannot be
// loaded.
void load_flow_solver();

// `rates` are the links' bytes/s. One solver per process.
std::unique_ptr<FlowSolver> make_flow_solver(const std::vector<double>& rates);

}  // namespace meshweave
