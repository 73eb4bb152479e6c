// All ranks in one process: the memory of each is an arena (arena.h) of float or double, kernels are those of
// kernels.h, and communications copy between arenas when their last member has come.
//
// Values start as the synthetic model (synthetic.h): parameters by name and index, moments 0, tokens by step
// and sample. What is not alive is filled with NaN. Sums over ranks are taken in the order of the group's
// members.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/execute/arena.h"
#include "sim/execute/backend.h"
#include "sim/execute/kernels.h"
#include "sim/program/communicators.h"

namespace meshweave {

struct InProcessSettings {
  std::uint64_t seed = 1;       // of the synthetic model
  std::int64_t vocabulary = 1;  // tokens are drawn below this
  bool delay = false;           // communications that are complete move in a random order, some of them polls later
  std::uint64_t delay_seed = 0;
};

template <class T>
class InProcessBackend : public Backend {
 public:
  // Everything must outlive the backend. `liveness` by body.
  InProcessBackend(const Program& program, const Communicators& communicators, const std::vector<Liveness>& liveness,
                   const InProcessSettings& settings);

  void compute(const OpCall& call) override;
  void post(const OpCall& call) override;
  void poll(std::vector<OpCall>& ended) override;
  void release(int rank, std::uint32_t storage) override;

  // The values of a tensor as they are now, in the order of its elements.
  std::vector<T> values(int rank, std::uint32_t tensor) const;
  void set_values(int rank, std::uint32_t tensor, const std::vector<T>& values);

  // First element in the rank's memory, and number of elements.
  using Range = std::pair<std::int64_t, std::int64_t>;
  Range range_of_storage(int rank, std::uint32_t storage) const;
  // Those of each run of the tensor's rows.
  std::vector<Range> ranges_of_tensor(int rank, std::uint32_t tensor) const;

 private:
  struct Memory {
    std::vector<T> values;
    std::vector<int> loaded;     // by storage: the step whose tokens it holds
    std::vector<OpCall> posted;  // since the last poll
  };
  // A collective of one instance of a group, on a stream.
  using CollectiveKey = std::tuple<std::uint8_t, std::uint16_t, std::uint32_t>;
  struct MessageEnd {
    OpCall call;
    std::uint32_t tensor = 0;
  };
  using MessageKey = std::tuple<int, int, std::uint64_t>;  // from, to, tag
  // What all have come for.
  struct Transfer {
    std::vector<OpCall> members;  // collectives, in the order of the group
    MessageEnd from, to;          // else
  };

  const Body& body_of(int rank) const { return program_.bodies[program_.body_of_rank[static_cast<std::size_t>(rank)]]; }
  const OpSpec& spec_of(const OpCall& call) const { return program_.spec(body_of(call.rank).ops[call.op]); }
  void plan_memory(const std::vector<Liveness>& liveness);
  void initialise(int rank);
  T* first_element(int rank, std::uint32_t tensor, const Geometry& at);
  void load_tokens(const OpCall& call, std::uint32_t tensor, const Geometry& at);
  void announce(const OpCall& call);
  void move(const Transfer& transfer, std::vector<OpCall>& ended);
  void move_collective(const std::vector<OpCall>& members);
  // The `operand`-th of the collectives that are one call.
  void move_operand(const std::vector<OpCall>& members, std::size_t operand);
  void end_message(const OpCall& call, std::vector<OpCall>& ended);

  const Program& program_;
  const Communicators& communicators_;
  InProcessSettings settings_;
  std::vector<std::vector<std::int64_t>> sizes_;                // by body and storage, in elements
  std::vector<ArenaPlan> plans_;                                // by body
  std::vector<Memory> memory_;                                  // by rank
  std::map<CollectiveKey, std::vector<OpCall>> gathering_;      // members that have come
  std::map<MessageKey, MessageEnd> senders_, receivers_;        // that wait for the other end
  std::map<std::pair<int, std::uint32_t>, int> open_messages_;  // by rank and op
  std::vector<Transfer> complete_;
  std::uint64_t drawn_ = 0;
};

}  // namespace meshweave
