// Which op of another rank is the other side of a communication.
//
// Members of a group call its collectives in the same order, so the n-th call of one is the n-th call of all;
// messages match by tag.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/execute/replay.h"
#include "sim/program/program.h"

namespace meshweave {

class Partners {
 public:
  explicit Partners(const Program& program);

  // The op of `peer` that communicates with op `op` of `rank`; no_op where there is none.
  std::uint32_t op_at_peer(int rank, std::uint32_t op, int peer) const;
  // The op of `body` that sends (or receives) the message with this tag; no_op where there is none.
  std::uint32_t op_of_message(std::size_t body, std::uint64_t tag, bool send) const;

 private:
  struct OfBody {
    std::vector<std::uint32_t> call;                            // by op: which call of its group it is
    std::vector<std::vector<std::uint32_t>> calls;              // by group: the ops that call it, in issue order
    std::unordered_map<std::uint64_t, std::uint32_t> messages;  // 2·tag + send → op
  };
  const Program& program_;
  std::vector<OfBody> bodies_;
};

}  // namespace meshweave
