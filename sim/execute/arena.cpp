#include "sim/execute/arena.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace meshweave {

namespace {

// Free ranges by address; neighbours are joined.
class Gaps {
 public:
  explicit Gaps(std::int64_t first) : end_(first) {}

  std::int64_t take(std::int64_t size) {
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      if (gap->second < size) continue;
      const std::int64_t address = gap->first;
      const std::int64_t rest = gap->second - size;
      gaps_.erase(gap);
      if (rest > 0) gaps_.emplace(address + size, rest);
      return address;
    }
    const std::int64_t address = end_;
    end_ += size;
    return address;
  }

  void give(std::int64_t address, std::int64_t size) {
    auto next = gaps_.lower_bound(address);
    if (next != gaps_.end() && address + size == next->first) {
      size += next->second;
      next = gaps_.erase(next);
    }
    if (next != gaps_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == address) {
        before->second += size;
        return;
      }
    }
    gaps_.emplace(address, size);
  }

  std::int64_t end() const { return end_; }

 private:
  std::map<std::int64_t, std::int64_t> gaps_;  // address, size
  std::int64_t end_;
};

}  // namespace

ArenaPlan plan_arena(std::span<const std::int64_t> sizes, const std::vector<StorageLife>& lives, std::uint32_t ops) {
  ArenaPlan plan;
  plan.address.resize(sizes.size());
  std::vector<std::uint32_t> reused;  // storages that give their place back
  for (std::uint32_t s = 0; s < sizes.size(); ++s) {
    if (lives[s].dies < ops && lives[s].dies > lives[s].born) {
      reused.push_back(s);
      continue;
    }
    plan.address[s] = plan.size;
    plan.size += sizes[s];
  }
  std::vector<std::uint32_t> dying = reused;
  std::stable_sort(reused.begin(), reused.end(), [&](auto a, auto b) { return lives[a].born < lives[b].born; });
  std::stable_sort(dying.begin(), dying.end(), [&](auto a, auto b) { return lives[a].dies < lives[b].dies; });
  Gaps gaps(plan.size);
  auto dead = dying.begin();
  for (const std::uint32_t s : reused) {
    for (; dead != dying.end() && lives[*dead].dies <= lives[s].born; ++dead) {
      if (sizes[*dead] > 0) gaps.give(plan.address[*dead], sizes[*dead]);
    }
    plan.address[s] = sizes[s] > 0 ? gaps.take(sizes[s]) : 0;
  }
  plan.size = gaps.end();
  return plan;
}

}  // namespace meshweave
