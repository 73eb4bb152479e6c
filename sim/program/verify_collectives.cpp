#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/program/print.h"
#include "sim/program/verify_parts.h"
#include "sim/program/work.h"

namespace meshweave {
namespace {

// A communicator is a group on a stream; its members call the same collectives in the same order.
struct CommunicatorKey {
  std::uint16_t group = 0;
  std::uint8_t stream = 0;
  auto operator<=>(const CommunicatorKey&) const = default;
};

// The collectives of one body, by communicator, in issue order.
using Calls = std::map<CommunicatorKey, std::vector<std::uint32_t>>;

Calls calls_of(const Program& program, const Body& body) {
  Calls calls;
  for (std::uint32_t op = 0; op < body.ops.size(); ++op) {
    const OpSpec& spec = program.spec(body.ops[op]);
    if (is_collective(spec.kind) && spec.group != no_group) calls[{spec.group, spec.stream}].push_back(op);
  }
  return calls;
}

class CollectiveCheck {
 public:
  CollectiveCheck(const Program& program, const RankClasses& classes, const Communicators& communicators,
                  Findings& findings, PartnersByClass& partners)
      : program_(program), classes_(classes), communicators_(communicators), findings_(findings), partners_(partners) {
    for (const Body& body : program.bodies) calls_.push_back(calls_of(program, body));
  }

  void run() {
    for (std::uint32_t c = 0; c < classes_.size.size() && !findings_.full(); ++c) check_class(c);
  }

 private:
  const Calls& calls(int rank) const { return calls_[program_.body_of_rank[static_cast<std::size_t>(rank)]]; }
  const OpSpec& spec(int rank, std::uint32_t op) const { return program_.spec(findings_.body_of(rank).ops[op]); }

  // The representative against one member of every other class in its instance.
  void check_class(std::uint32_t c) {
    const int rank = classes_.representative[c];
    for (const auto& [key, ops] : calls(rank)) {
      const Communicators::Of& group = communicators_.by_group[key.group];
      const std::uint32_t instance = group.instance_of[static_cast<std::size_t>(rank)];
      if (instance == UINT32_MAX) {
        findings_.add(Fault::collective_mismatch, rank, ops[0],
                      fmt::format("the rank is in no instance of group {}", program_.groups[key.group].name));
        continue;
      }
      for (const int member : other_classes(c, group.of(instance))) compare(c, rank, member, key, ops);
    }
  }

  std::vector<int> other_classes(std::uint32_t own, std::span<const int> members) const {
    std::vector<int> chosen;
    std::vector<std::uint32_t> seen{own};
    for (const int m : members) {
      const std::uint32_t c = classes_.class_of[static_cast<std::size_t>(m)];
      if (std::find(seen.begin(), seen.end(), c) != seen.end()) continue;
      seen.push_back(c);
      chosen.push_back(m);
    }
    return chosen;
  }

  void compare(std::uint32_t own_class, int rank, int member, const CommunicatorKey& key,
               const std::vector<std::uint32_t>& own) {
    const auto found = calls(member).find(key);
    const std::vector<std::uint32_t> other =
        found == calls(member).end() ? std::vector<std::uint32_t>{} : found->second;
    const std::uint32_t member_class = classes_.class_of[static_cast<std::size_t>(member)];
    for (std::size_t n = 0; n < own.size(); ++n) {
      if (n == other.size()) {
        report_missing(rank, own[n], member, key, n);
        return;
      }
      if (!same_call(spec(rank, own[n]), spec(member, other[n]))) {
        if (own_class < member_class) report_difference(rank, own[n], member, other[n], key, n);
        return;
      }
      partners_[own_class].push_back({own[n], member_class, other[n]});
    }
  }

  bool same_call(const OpSpec& a, const OpSpec& b) const {
    return &a == &b ||
           (a.kind == b.kind && a.attributes.reduce == b.attributes.reduce && a.attributes.root == b.attributes.root &&
            input_bytes(program_, a) == input_bytes(program_, b) &&
            output_bytes(program_, a) == output_bytes(program_, b));
  }

  std::string ordinal_text(const CommunicatorKey& key, std::size_t n) const {
    return fmt::format("collective {} over {} on {}", n + 1, program_.groups[key.group].name,
                       program_.streams[key.stream].name);
  }

  void report_missing(int rank, std::uint32_t op, int member, const CommunicatorKey& key, std::size_t n) {
    findings_.add(Fault::collective_mismatch, rank, op,
                  fmt::format("is {}, which rank {} does not call", ordinal_text(key, n), member), member);
  }

  void report_difference(int rank, std::uint32_t op, int member, std::uint32_t other, const CommunicatorKey& key,
                         std::size_t n) {
    const auto size = [&](const OpSpec& s) {
      return fmt::format("{} -> {} bytes", input_bytes(program_, s), output_bytes(program_, s));
    };
    findings_.add(Fault::collective_mismatch, rank, op,
                  fmt::format("is {} ({}), where {} is called ({})", ordinal_text(key, n), size(spec(rank, op)),
                              findings_.name_op(member, other), size(spec(member, other))),
                  member, static_cast<int>(other));
  }

  const Program& program_;
  const RankClasses& classes_;
  const Communicators& communicators_;
  Findings& findings_;
  PartnersByClass& partners_;
  std::vector<Calls> calls_;  // by body
};

}  // namespace

void check_collectives(const Program& program, const RankClasses& classes, const Communicators& communicators,
                       Findings& findings, PartnersByClass& partners) {
  CollectiveCheck(program, classes, communicators, findings, partners).run();
}

}  // namespace meshweave
