#include <fmt/format.h>

#include <algorithm>

#include "sim/base/text.h"
#include "sim/program/print.h"
#include "sim/program/verify_parts.h"

namespace meshweave {
namespace {

// One end of a transfer and the op that posts it.
struct End {
  std::uint32_t op = 0;
  std::uint64_t tag = 0;
  std::uint32_t tensor = 0;
  AxisMask along = 0;  // Peer::along
};

struct PostedMessage {
  std::uint32_t op = 0;
  Message message;
};

class MessageCheck {
 public:
  MessageCheck(const Program& program, const RankClasses& classes, Findings& findings, PartnersByClass& partners)
      : program_(program), classes_(classes), findings_(findings), partners_(partners) {
    for (const Body& body : program.bodies) posted_.push_back(posted_by(body));
  }

  void run() {
    for (std::size_t body = 0; body < program_.bodies.size(); ++body) {
      if (findings_.rank_of_body(body) >= 0) check_batches(findings_.rank_of_body(body));
    }
    for (const int rank : classes_.representative) {
      for (const int peer : peers_of(rank)) {
        check_pair(rank, peer, true);
        check_pair(rank, peer, false);
      }
    }
  }

 private:
  std::size_t body_index(int rank) const { return program_.body_of_rank[static_cast<std::size_t>(rank)]; }
  std::uint32_t class_of(int rank) const { return classes_.class_of[static_cast<std::size_t>(rank)]; }
  const TensorSpec& tensor_spec(int rank, const End& end) const {
    return program_.tensor_spec(findings_.body_of(rank), end.tensor);
  }

  std::vector<PostedMessage> posted_by(const Body& body) const {
    std::vector<PostedMessage> posted;
    for (std::uint32_t op = 0; op < body.ops.size(); ++op) {
      for (const Message& m : program_.messages(body, body.ops[op])) posted.push_back({op, m});
    }
    return posted;
  }

  // The operands of a batch are the tensors of its messages, in their order.
  void check_batches(int rank) {
    const Body& body = findings_.body_of(rank);
    for (std::uint32_t op = 0; op < body.ops.size(); ++op) {
      const OpKind kind = program_.spec(body.ops[op]).kind;
      if (kind != OpKind::point_to_point && body.ops[op].message_count == 0) continue;
      std::vector<std::uint32_t> sent, received;
      for (const Message& m : program_.messages(body, body.ops[op])) (m.send ? sent : received).push_back(m.tensor);
      const auto reads = program_.reads(body, body.ops[op]);
      const auto writes = program_.writes(body, body.ops[op]);
      if (kind != OpKind::point_to_point) {
        findings_.add(Fault::operand_mismatch, rank, op, "carries messages but is no point-to-point");
      } else if (!std::equal(sent.begin(), sent.end(), reads.begin(), reads.end())) {
        findings_.add(Fault::operand_mismatch, rank, op, "reads other tensors than its messages send");
      } else if (!std::equal(received.begin(), received.end(), writes.begin(), writes.end())) {
        findings_.add(Fault::operand_mismatch, rank, op, "writes other tensors than its messages receive");
      }
    }
  }

  // The ranks that exchange messages with `rank` by its own account.
  std::vector<int> peers_of(int rank) const {
    std::vector<int> peers;
    for (const PostedMessage& p : posted_[body_index(rank)]) {
      const int peer = program_.peer_rank(rank, p.message.peer);
      if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
    }
    return peers;
  }

  // The ends at `rank` of the messages that it sends to, or receives from, `peer`, in the order of posting.
  std::vector<End> ends(int rank, int peer, bool send) const {
    std::vector<End> found;
    for (const auto& [op, m] : posted_[body_index(rank)]) {
      if (m.send == send && program_.peer_rank(rank, m.peer) == peer) {
        found.push_back({op, m.tag, m.tensor, program_.peers[m.peer].along});
      }
    }
    return found;
  }

  // Matches what `rank` sends to `peer` (or receives from it) with the ends there: the n-th of a tag with the
  // n-th.
  void check_pair(int rank, int peer, bool send) {
    const std::vector<End> own = ends(rank, peer, send);
    const std::vector<End> other = ends(peer, rank, !send);
    std::vector<bool> taken(other.size(), false);
    std::vector<std::size_t> match(own.size(), other.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      // Where the order is right, the match stands at the same position.
      std::size_t j = i < other.size() && other[i].tag == own[i].tag && !taken[i] ? i : 0;
      while (j < other.size() && (taken[j] || other[j].tag != own[i].tag)) ++j;
      if (j == other.size()) {
        report_unmatched(rank, peer, own[i], send);
        continue;
      }
      taken[j] = true;
      match[i] = j;
      partners_[class_of(rank)].push_back({own[i].op, class_of(peer), other[j].op});
      if (send) check_ends(rank, own[i], peer, other[j]);
    }
    if (send) check_order(rank, peer, own, other, match);
  }

  void report_unmatched(int rank, int peer, const End& end, bool send) {
    const std::string tensor = describe_tensor(program_, findings_.body_of(rank), end.tensor);
    const auto text =
        send ? fmt::format("sends {} with tag {} to rank {}, which does not receive it", tensor, end.tag, peer)
             : fmt::format("receives {} with tag {} from rank {}, which does not send it", tensor, end.tag, peer);
    findings_.add(Fault::unmatched_message, rank, end.op, text, peer);
  }

  int stripes(int rank, const End& end) const {
    return program_.spec(findings_.body_of(rank).ops[end.op]).attributes.stripes;
  }

  void check_ends(int rank, const End& sent, int peer, const End& received) {
    const TensorSpec& a = tensor_spec(rank, sent);
    const TensorSpec& b = tensor_spec(peer, received);
    const int a_stripes = stripes(rank, sent);
    const int b_stripes = stripes(peer, received);
    const auto text = [&](const std::string& own, const std::string& other) {
      return fmt::format("sends {} with tag {}, {}, but {} receives {}", a.name, sent.tag, own,
                         findings_.name_op(peer, received.op), other);
    };
    if (a.bytes() != b.bytes()) {
      findings_.add(Fault::message_size, rank, sent.op,
                    text(fmt::format("{} bytes", a.bytes()), fmt::format("{} bytes", b.bytes())), peer,
                    static_cast<int>(received.op));
    } else if ((a.partial != b.partial && (a.partial & ~sent.along) != b.partial) || a.dtype != b.dtype) {
      // The last hop of a ring completes the sum that travels along it.
      const auto as = [](const TensorSpec& s) {
        return fmt::format("{} partial {}", name_of(s.dtype), names_of(s.partial));
      };
      findings_.add(Fault::operand_mismatch, rank, sent.op, text(as(a), as(b)), peer, static_cast<int>(received.op));
    } else if (a_stripes < 1 || a_stripes != b_stripes) {
      findings_.add(Fault::operand_mismatch, rank, sent.op,
                    text(count_text(a_stripes, "stripe"), count_text(b_stripes, "stripe")), peer,
                    static_cast<int>(received.op));
    }
  }

  // NCCL matches the messages of a pair by their order, so that the order must be the same at both ends.
  void check_order(int rank, int peer, const std::vector<End>& own, const std::vector<End>& other,
                   const std::vector<std::size_t>& match) {
    std::size_t latest = 0;
    bool any = false;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (match[i] == other.size()) continue;
      if (any && match[i] < latest) {
        const End& overtaken = other[latest];
        findings_.add(
            Fault::message_order, rank, own[i].op,
            fmt::format("sends tag {} behind tag {} to rank {}, which receives it before, at {}", own[i].tag,
                        overtaken.tag, peer, describe_op(program_, findings_.body_of(peer), other[match[i]].op)),
            peer, static_cast<int>(other[match[i]].op));
        return;
      }
      latest = match[i];
      any = true;
    }
  }

  const Program& program_;
  const RankClasses& classes_;
  Findings& findings_;
  PartnersByClass& partners_;
  std::vector<std::vector<PostedMessage>> posted_;  // by body, in issue order
};

}  // namespace

void check_messages(const Program& program, const RankClasses& classes, Findings& findings, PartnersByClass& partners) {
  MessageCheck(program, classes, findings, partners).run();
}

}  // namespace meshweave
