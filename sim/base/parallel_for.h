// A function over an index range, on several threads.
//
// Indices are handed out in ascending order; which thread takes which is not fixed, and the function must not depend on
// it. Where calls throw, no further index is handed out, and the exception of the lowest index that threw is thrown
// again: every index below it was handed out before, so that it is the same one with any number of threads.
//
//   std::vector<Row> rows(points.size());
//   parallel_for(points.size(), thread_count(jobs), [&](std::size_t i) { rows[i] = simulate(points[i]); });
#pragma once

#include <atomic>
#include <barrier>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace meshweave {

// `wanted` where it is above 0, else one per processor.
int thread_count(int wanted);

// Calls body(0) … body(count − 1) on `threads` threads, the calling one included.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& body);

// Threads that stay for many ranges, where starting them would take longer than a range does.
class WorkerTeam {
 public:
  // `threads` in all, the calling one included; below 1 counts as 1.
  explicit WorkerTeam(int threads);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;

  void run(std::size_t count, const std::function<void(std::size_t)>& body);

 private:
  void work();

  std::barrier<> barrier_;
  std::vector<std::thread> others_;
  std::atomic<std::size_t> next_{0};
  std::size_t count_ = 0;
  const std::function<void(std::size_t)>* body_ = nullptr;
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::size_t failed_index_ = 0;
  bool stop_ = false;
};

}  // namespace meshweave
