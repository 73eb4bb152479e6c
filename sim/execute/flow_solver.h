// The part of the simgrid network that talks to SimGrid: flows over given links, started at the present time,
// and the clock. All calls of SimGrid are in flow_solver.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace meshweave {

class FlowSolver {
 public:
  // `rates` are the links' bytes/s. One solver per process.
  explicit FlowSolver(const std::vector<double>& rates);
  ~FlowSolver();

  // Starts a flow of `bytes` at most `cap` bytes/s fast.
  void start(std::uint32_t flow, const std::vector<std::uint32_t>& links, double bytes, double cap);
  std::size_t active() const;
  double clock() const;  // seconds
  // Moves the clock to `limit`, or to the first time before it at which flows end, which are appended to
  // `ended`. A negative limit means none.
  void advance(double limit, std::vector<std::uint32_t>& ended);

 private:
  struct Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace meshweave
