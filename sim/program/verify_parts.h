// The parts of the verifier, one per kind of property. Each appends what it finds; none depends on another's
// result except that progress is only asked for when all messages and collectives match.
#pragma once

#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/program/classes.h"
#include "sim/program/communicators.h"
#include "sim/program/verify.h"

namespace meshweave {

// The violations found so far, up to a limit.
class Findings {
 public:
  Findings(const Program& program, std::size_t limit, const InterruptFlag* interrupt);

  bool full() const { return violations_.size() >= limit_; }
  std::size_t count() const { return violations_.size(); }
  // The smallest rank of a body; −1 when no rank has it. A fault of the body is reported there.
  int rank_of_body(std::size_t body) const { return rank_of_body_[body]; }
  const Body& body_of(int rank) const { return program_.bodies[program_.body_of_rank[static_cast<std::size_t>(rank)]]; }
  // "rank 3 op 17 matmul qkv backward-data, layer 3, micro-batch 0"
  std::string name_op(int rank, std::size_t op) const;
  // Text: name_op(rank, op) + ": " + `what`.
  void add(Fault fault, int rank, std::size_t op, const std::string& what, int other_rank = -1, int other_op = -1);
  void add(Violation violation);
  std::vector<Violation> take() { return std::move(violations_); }
  // Throws Interrupted; the parts ask now and then.
  void check_interrupt() const { meshweave::check_interrupt(interrupt_); }

 private:
  const Program& program_;
  std::size_t limit_;
  const InterruptFlag* interrupt_;
  std::vector<int> rank_of_body_;
  std::vector<Violation> violations_;
};

// operand_mismatch: what can be told from an op spec alone.
void check_operands(const Program& program, Findings& findings);

// unwritten_read, stale_read, reused_storage, dead_write, unread_secondary.
void check_storages(const Program& program, Findings& findings);

// For each class, the other ends of its representative's communications.
struct Partner {
  std::uint32_t op = 0;          // of the representative's body
  std::uint32_t partner = 0;     // class
  std::uint32_t partner_op = 0;  // of its body
};
using PartnersByClass = std::vector<std::vector<Partner>>;

// unmatched_message, message_size, message_order, and operand_mismatch of a batch's tensors.
void check_messages(const Program& program, const RankClasses& classes, Findings& findings, PartnersByClass& partners);

// collective_mismatch.
void check_collectives(const Program& program, const RankClasses& classes, const Communicators& communicators,
                       Findings& findings, PartnersByClass& partners);

// deadlock, serial_deadlock. `partners` holds every other end that an op needs to be posted.
void check_progress(const Program& program, const RankClasses& classes, const PartnersByClass& partners,
                    const std::vector<Waits>& waits, Findings& findings);

}  // namespace meshweave
