#include <fmt/format.h>

#include "sim/program/cells.h"
#include "sim/program/print.h"
#include "sim/program/verify_parts.h"

namespace meshweave {
namespace {

constexpr std::uint32_t never = 0xffffffff;

// Whether a kernel makes the output on the way to another one, read or not: the exponentials whose sum a
// forward pass needs, and all outputs of a re-emitted block.
bool may_stay_unread(const OpSpec& spec, std::size_t output) {
  return spec.phase == Phase::recompute || (spec.kind == OpKind::cross_entropy_sum && output == 0);
}

// Walks one body in issue order and keeps, per cell, which operand wrote it last.
class StorageCheck {
 public:
  StorageCheck(const Program& program, const Body& body, int rank, Findings& findings)
      : program_(program),
        body_(body),
        rank_(rank),
        findings_(findings),
        cells_(cut_storages(program, body)),
        written_by_(cells_.count(), never),
        op_of_write_(body.operands.size(), 0),
        read_(body.operands.size(), false) {}

  void run() {
    for (op_ = 0; op_ < body_.ops.size() && !findings_.full(); ++op_) {
      findings_.check_interrupt();
      for (const std::uint32_t t : program_.reads(body_, body_.ops[op_])) read(t);
      const std::uint32_t first = first_write(body_.ops[op_]);
      for (std::uint32_t i = 0; i < program_.writes(body_, body_.ops[op_]).size(); ++i) write(first + i);
    }
    for (op_ = 0; op_ < body_.ops.size() && !findings_.full(); ++op_) find_unread();
  }

 private:
  std::uint32_t first_write(const Op& op) const {
    return op.first_operand + static_cast<std::uint32_t>(program_.spec(op).reads.size());
  }
  const Storage& storage_of(std::uint32_t tensor) const { return body_.storages[body_.tensors[tensor].storage]; }
  std::string name(std::uint32_t tensor) const { return describe_tensor(program_, body_, tensor); }
  void report(Fault fault, const std::string& what, int other_op = -1) {
    findings_.add(fault, rank_, op_, what, other_op < 0 ? -1 : rank_, other_op);
  }

  // Whether two views of a transient storage are the same tensor, or one a part of the other.
  bool same_identity(std::uint32_t a, std::uint32_t b) const {
    if (a == b) return true;
    const Tensor& x = body_.tensors[a];
    const Tensor& y = body_.tensors[b];
    if (x.layer != y.layer || x.micro_batch != y.micro_batch) return false;
    if (x.spec == y.spec) return true;
    const TensorSpec& s = program_.tensor_specs[x.spec];
    const TensorSpec& t = program_.tensor_specs[y.spec];
    return s.name == t.name && s.dtype == t.dtype && s.partial == t.partial && s.grid == t.grid &&
           program_.byte_range(body_, a) != program_.byte_range(body_, b);
  }

  // A persistent storage has many views; what one wrote and another reads must be as complete a sum. Zeros
  // are a partial sum over any axes.
  bool agrees(std::uint32_t reader, std::uint32_t operand) const {
    const std::uint32_t writer = body_.operands[operand];
    if (!storage_of(reader).persistent) return same_identity(reader, writer);
    return program_.spec(body_.ops[op_of_write_[operand]]).kind == OpKind::fill ||
           program_.tensor_spec(body_, reader).partial == program_.tensor_spec(body_, writer).partial;
  }

  // Main gradients start undefined: each step fills them first. All other persistent storages hold what the
  // step before, or the initialisation, left there.
  bool starts_written(std::uint32_t tensor) const {
    return storage_of(tensor).persistent && storage_of(tensor).category != Category::main_gradients;
  }

  void read(std::uint32_t tensor) {
    const Cells::Range range = cells_.of_tensor[tensor];
    bool unwritten = false;
    std::uint32_t stale = never;
    for (std::uint32_t cell = range.first; cell < range.last; ++cell) {
      const std::uint32_t operand = written_by_[cell];
      if (operand == never) {
        unwritten = unwritten || !starts_written(tensor);
        continue;
      }
      read_[operand] = true;
      if (stale == never && !agrees(tensor, operand)) stale = operand;
    }
    if (unwritten) report(Fault::unwritten_read, fmt::format("reads {}, which nothing wrote before", name(tensor)));
    if (stale != never) report_stale(tensor, stale);
  }

  void report_stale(std::uint32_t tensor, std::uint32_t operand) {
    const std::uint32_t writer = op_of_write_[operand];
    report(Fault::stale_read,
           fmt::format("reads {}, but {} wrote {} there last", name(tensor), describe_op(program_, body_, writer),
                       name(body_.operands[operand])),
           static_cast<int>(writer));
  }

  void write(std::uint32_t operand) {
    const std::uint32_t tensor = body_.operands[operand];
    const Cells::Range range = cells_.of_tensor[tensor];
    std::uint32_t reused = never;
    for (std::uint32_t cell = range.first; cell < range.last; ++cell) {
      const std::uint32_t before = written_by_[cell];
      if (before != never && reused == never && may_not_follow(tensor, body_.operands[before])) reused = before;
      written_by_[cell] = operand;
    }
    op_of_write_[operand] = static_cast<std::uint32_t>(op_);
    if (reused == never) return;
    report(Fault::reused_storage,
           fmt::format("writes {} over {}, which {} wrote to the same transient storage", name(tensor),
                       name(body_.operands[reused]), describe_op(program_, body_, op_of_write_[reused])),
           static_cast<int>(op_of_write_[reused]));
  }

  // A transient storage holds one tensor, except that a communication or a sum may work in place.
  bool may_not_follow(std::uint32_t tensor, std::uint32_t before) const {
    if (storage_of(tensor).persistent || same_identity(tensor, before)) return false;
    return !works_in_place(program_.spec(body_.ops[op_])) || !reads_storage(body_.tensors[tensor].storage);
  }

  static bool works_in_place(const OpSpec& spec) {
    return facts_of(spec.kind).has(OpFacts::in_place) || spec.attributes.accumulates;
  }

  bool reads_storage(std::uint32_t storage) const {
    for (const std::uint32_t t : program_.reads(body_, body_.ops[op_])) {
      if (body_.tensors[t].storage == storage) return true;
    }
    return false;
  }

  void find_unread() {
    const Op& op = body_.ops[op_];
    const OpSpec& spec = program_.spec(op);
    const std::uint32_t first = first_write(op);
    for (std::uint32_t i = 0; i < spec.writes.size(); ++i) {
      const std::uint32_t tensor = body_.operands[first + i];
      if (read_[first + i] || storage_of(tensor).persistent) continue;
      if (i > 0 && facts_of(spec.kind).has(OpFacts::extras)) {
        report(Fault::unread_secondary,
               fmt::format("writes {}, which exists only to be read and is not", name(tensor)));
      } else if (!may_stay_unread(spec, i)) {
        report(Fault::dead_write, fmt::format("writes {}, which nothing reads", name(tensor)));
      }
    }
  }

  const Program& program_;
  const Body& body_;
  const int rank_;
  Findings& findings_;
  const Cells cells_;
  std::vector<std::uint32_t> written_by_;   // by cell: index into Body::operands
  std::vector<std::uint32_t> op_of_write_;  // by operand
  std::vector<bool> read_;                  // by operand that writes
  std::size_t op_ = 0;                      // current
};

}  // namespace

void check_storages(const Program& program, Findings& findings) {
  for (std::size_t body = 0; body < program.bodies.size(); ++body) {
    const int rank = findings.rank_of_body(body);
    if (rank >= 0) StorageCheck(program, program.bodies[body], rank, findings).run();
  }
}

}  // namespace meshweave
