#include "sim/base/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>

using namespace meshweave;

TEST_CASE("Every index is taken once, by any number of threads") {
  for (const int threads : {0, 1, 2, 7}) {
    for (const std::size_t count : {0, 1, 5, 1000}) {
      INFO(threads << " threads, " << count << " indices");
      std::vector<std::atomic<int>> taken(count);
      parallel_for(count, threads, [&](std::size_t i) { ++taken[i]; });
      CHECK(std::all_of(taken.begin(), taken.end(), [](const std::atomic<int>& n) { return n == 1; }));
    }
  }
}

TEST_CASE("A team runs one range after another") {
  WorkerTeam team(3);
  std::vector<int> values(100, 1);
  for (int round = 0; round < 6; ++round) team.run(values.size(), [&](std::size_t i) { values[i] *= 2; });
  CHECK(std::accumulate(values.begin(), values.end(), 0) == 6400);  // 100 · 2⁶
}

TEST_CASE("The exception of the lowest index that throws is thrown again, whichever comes first") {
  for (const int threads : {1, 2, 4}) {
    INFO(threads << " threads");
    const auto body = [](std::size_t i) {
      if (i == 10) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // 11 and 12 throw before it
      if (i >= 10) throw std::runtime_error(std::to_string(i));
    };
    CHECK_THROWS_WITH(parallel_for(100, threads, body), "10");
  }
}

TEST_CASE("Behind an exception no further index is taken, and the team goes on with its next range") {
  WorkerTeam team(2);
  std::atomic<std::size_t> calls{0};
  CHECK_THROWS_AS(team.run(1000,
                           [&](std::size_t) {
                             ++calls;
                             throw std::runtime_error("at once");
                           }),
                  std::runtime_error);
  CHECK(calls <= 2);  // one per thread
  calls = 0;
  team.run(10, [&](std::size_t) { ++calls; });
  CHECK(calls == 10);
}

TEST_CASE("As many threads as are wanted, else one per processor") {
  CHECK(thread_count(3) == 3);
  CHECK(thread_count(0) >= 1);
}
