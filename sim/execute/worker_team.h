// A team of threads that runs a function over an index range, again and again.
//
// Which thread takes which index is not fixed; the function must not depend on it.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace meshweave {

class WorkerTeam {
 public:
  // `threads` in all, the calling one included.
  explicit WorkerTeam(int threads) : barrier_(std::max(1, threads)) {
    for (int i = 1; i < threads; ++i) {
      others_.emplace_back([this] {
        while (true) {
          barrier_.arrive_and_wait();
          if (stop_) return;
          work();
          barrier_.arrive_and_wait();
        }
      });
    }
  }
  ~WorkerTeam() {
    stop_ = true;
    if (!others_.empty()) barrier_.arrive_and_wait();
    for (std::thread& t : others_) t.join();
  }
  WorkerTeam(const WorkerTeam&) = delete;

  // Calls body(0) … body(count − 1); rethrows one of the exceptions that they throw.
  void run(std::size_t count, const std::function<void(std::size_t)>& body) {
    next_ = 0;
    count_ = count;
    body_ = &body;
    failure_ = nullptr;
    if (others_.empty()) {
      work();
    } else {
      barrier_.arrive_and_wait();
      work();
      barrier_.arrive_and_wait();
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work() {
    for (std::size_t i = next_++; i < count_; i = next_++) {
      try {
        (*body_)(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
      }
    }
  }

  std::barrier<> barrier_;
  std::vector<std::thread> others_;
  std::atomic<std::size_t> next_{0};
  std::size_t count_ = 0;
  const std::function<void(std::size_t)>* body_ = nullptr;
  std::mutex mutex_;
  std::exception_ptr failure_;
  bool stop_ = false;
};

}  // namespace meshweave
