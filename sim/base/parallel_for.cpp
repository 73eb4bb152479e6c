#include "sim/base/parallel_for.h"

#include <algorithm>

namespace meshweave {

int thread_count(int wanted) {
  return wanted > 0 ? wanted : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& body) {
  const auto wanted = static_cast<std::size_t>(std::max(1, threads));
  WorkerTeam(static_cast<int>(std::min(wanted, count))).run(count, body);
}

WorkerTeam::WorkerTeam(int threads) : barrier_(std::max(1, threads)) {
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

WorkerTeam::~WorkerTeam() {
  stop_ = true;
  if (!others_.empty()) barrier_.arrive_and_wait();
  for (std::thread& thread : others_) thread.join();
}

void WorkerTeam::run(std::size_t count, const std::function<void(std::size_t)>& body) {
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

void WorkerTeam::work() {
  for (std::size_t i = next_++; i < count_; i = next_++) {
    try {
      (*body_)(i);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_ || i < failed_index_) {
        failure_ = std::current_exception();
        failed_index_ = i;
      }
      next_ = count_;
    }
  }
}

}  // namespace meshweave
