#include "sim/program/verify.h"

#include "sim/program/print.h"
#include "sim/program/verify_parts.h"

namespace meshweave {

std::string_view name_of(Fault fault) {
  constexpr std::string_view names[] = {"unwritten-read",      "stale-read",       "reused-storage",
                                        "dead-write",          "unread-secondary", "operand-mismatch",
                                        "unmatched-message",   "message-size",     "message-order",
                                        "collective-mismatch", "deadlock",         "serial-deadlock"};
  return names[static_cast<std::size_t>(fault)];
}

Findings::Findings(const Program& program, std::size_t limit, const InterruptFlag* interrupt)
    : program_(program), limit_(limit), interrupt_(interrupt), rank_of_body_(program.bodies.size(), -1) {
  for (std::size_t rank = program.body_of_rank.size(); rank-- > 0;) {
    rank_of_body_[program.body_of_rank[rank]] = static_cast<int>(rank);
  }
}

std::string Findings::name_op(int rank, std::size_t op) const {
  return "rank " + std::to_string(rank) + " " + describe_op(program_, body_of(rank), op);
}

void Findings::add(Fault fault, int rank, std::size_t op, const std::string& what, int other_rank, int other_op) {
  if (full()) return;
  add({fault, rank, static_cast<int>(op), other_rank, other_op, name_op(rank, op) + ": " + what});
}

void Findings::add(Violation violation) {
  if (!full()) violations_.push_back(std::move(violation));
}

namespace {

std::uint64_t any_placement(std::span<const int>) { return 0; }

// Ranks of one class go through the same states at zero durations, so that the representatives stand for all:
// a class's op ends when the classes of its group's members, or of its peers, have posted theirs.
void check_communication(const Program& program, Findings& findings, std::vector<Waits>& waits) {
  const RankClasses classes = fold_ranks(program, {}, any_placement);
  const Communicators communicators = make_communicators(program);
  PartnersByClass partners(classes.size.size());
  const std::size_t before = findings.count();
  check_messages(program, classes, findings, partners);
  check_collectives(program, classes, communicators, findings, partners);
  if (findings.count() != before) return;
  for (const Body& body : program.bodies) {
    findings.check_interrupt();
    waits.push_back(derive_waits(program, body));
  }
  check_progress(program, classes, partners, waits, findings);
}

}  // namespace

std::vector<Violation> verify(const Program& program, std::size_t limit, std::vector<Waits>* derived,
                              const InterruptFlag* interrupt) {
  Findings findings(program, limit, interrupt);
  std::vector<Waits> waits;
  check_operands(program, findings);
  check_storages(program, findings);
  if (!findings.full()) check_communication(program, findings, waits);
  if (derived != nullptr) *derived = std::move(waits);
  return findings.take();
}

}  // namespace meshweave
