#include "sim/program/liveness.h"

#include <algorithm>
#include <numeric>

namespace meshweave {
namespace {

std::int64_t total(const BytesByCategory& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

std::size_t category_of(const Body& body, std::uint32_t storage) {
  return static_cast<std::size_t>(body.storages[storage].category);
}

// By op: the first compute op that starts only when the op has ended; ops.size() where there is none. The
// clocks of the compute stream never decrease, so each op is met once.
std::vector<std::uint32_t> first_compute_after(const Program& program, const Body& body, const Waits& waits) {
  const auto ops = static_cast<std::uint32_t>(body.ops.size());
  std::vector<std::vector<std::uint32_t>> pending(waits.streams);
  std::vector<std::size_t> seen(waits.streams, 0);
  for (std::uint32_t op = 0; op < ops; ++op) pending[program.spec(body.ops[op]).stream].push_back(op);
  std::vector<std::uint32_t> after(ops, ops);
  for (const std::uint32_t compute : pending[0]) {
    for (std::size_t s = 0; s < waits.streams; ++s) {
      const std::uint32_t ended = waits.clock[compute * waits.streams + s];
      while (seen[s] < pending[s].size() && pending[s][seen[s]] < ended) after[pending[s][seen[s]++]] = compute;
    }
  }
  return after;
}

// The lives of all storages: from the first op that touches one to the latest of the compute ops that are
// ordered after those that touch it.
std::vector<StorageLife> find_lives(const Program& program, const Body& body, const Waits& waits) {
  const auto ops = static_cast<std::uint32_t>(body.ops.size());
  const std::vector<std::uint32_t> after = first_compute_after(program, body, waits);
  std::vector<StorageLife> lives(body.storages.size(), StorageLife{ops, 0});
  for (std::uint32_t op = 0; op < ops; ++op) {
    const auto touch = [&](std::uint32_t tensor) {
      StorageLife& life = lives[body.tensors[tensor].storage];
      life.born = std::min(life.born, op);
      life.dies = std::max(life.dies, after[op]);
    };
    for (const std::uint32_t t : program.reads(body, body.ops[op])) touch(t);
    for (const std::uint32_t t : program.writes(body, body.ops[op])) touch(t);
  }
  for (std::size_t s = 0; s < lives.size(); ++s) {
    if (body.storages[s].persistent) {
      lives[s] = {0, ops};
    } else if (lives[s].born == ops) {
      lives[s] = {0, 0};  // no op touches it
    }
  }
  return lives;
}

// The transient storages by the op at which they come alive, or die.
class StoragesByOp {
 public:
  StoragesByOp(const Body& body, const std::vector<StorageLife>& lives, std::uint32_t StorageLife::*when)
      : first_(body.ops.size() + 2, 0) {
    const auto each = [&](auto visit) {
      for (std::uint32_t s = 0; s < lives.size(); ++s) {
        if (!body.storages[s].persistent) visit(s, lives[s].*when);
      }
    };
    each([&](std::uint32_t, std::uint32_t op) { ++first_[op + 1]; });
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    storages_.resize(first_.back());
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    each([&](std::uint32_t s, std::uint32_t op) { storages_[next[op]++] = s; });
  }
  std::span<const std::uint32_t> at(std::size_t op) const {
    return {storages_.data() + first_[op], first_[op + 1] - first_[op]};
  }

 private:
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> storages_;
};

}  // namespace

Liveness derive_liveness(const Program& program, const Body& body, const Waits& waits) {
  Liveness result;
  result.lives = find_lives(program, body, waits);
  for (const Storage& storage : body.storages) {
    if (storage.persistent) result.persistent[static_cast<std::size_t>(storage.category)] += storage.bytes;
  }
  const StoragesByOp born(body, result.lives, &StorageLife::born);
  const StoragesByOp dying(body, result.lives, &StorageLife::dies);
  BytesByCategory alive = result.persistent;
  result.curve.reserve(body.ops.size());
  for (std::uint32_t op = 0; op == 0 || op < body.ops.size(); ++op) {
    const BytesByCategory before = alive;
    for (const std::uint32_t s : born.at(op)) alive[category_of(body, s)] += body.storages[s].bytes;
    for (const std::uint32_t s : dying.at(op)) alive[category_of(body, s)] -= body.storages[s].bytes;
    if (op != 0 && alive == before) continue;
    result.curve.push_back({op, alive});
    if (op == 0 || total(alive) > result.peak_bytes) {
      result.peak_op = op;
      result.peak = alive;
      result.peak_bytes = total(alive);
    }
  }
  return result;
}

}  // namespace meshweave
