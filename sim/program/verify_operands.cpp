#include <fmt/format.h>

#include <algorithm>

#include "sim/program/operand_expectations.h"
#include "sim/program/verify_parts.h"

namespace meshweave {
namespace {

// Operands are counted before they are looked at.
std::string count_fault(const OpSpec& spec) {
  const OpFacts& facts = facts_of(spec.kind);
  const std::size_t reads = spec.reads.size();
  const std::size_t writes = spec.writes.size();
  const bool accumulates = spec.attributes.accumulates;
  if (accumulates && facts.accumulation == Accumulation::never) return "accumulates, which no op of its kind does";
  if (!accumulates && facts.accumulation == Accumulation::always) return "does not accumulate";
  const bool biased = facts.has(OpFacts::bias) && spec.attributes.bias;
  const std::size_t apart = (accumulates ? writes : 0) + (biased ? 1 : 0);
  Arity inputs = facts.reads;
  Arity outputs = facts.writes;
  if (spec.kind == OpKind::matmul) {
    // A forward product has two factors, a gradient is one tensor.
    const bool forward = spec.attributes.matmul == MatmulForm::forward;
    (forward ? inputs : outputs).most = forward ? 2 : 1;
  }
  if (reads < apart || !inputs.fits(reads - apart)) return fmt::format("reads {} operands", reads);
  if (!outputs.fits(writes)) return fmt::format("writes {} operands", writes);
  if (is_collective(spec.kind) && reads - apart != writes)
    return fmt::format("reads {} operands and writes {}", reads, writes);
  return "";
}

// What is wrong with an op spec; empty when nothing is.
std::string fault_of(const Program& program, const OpSpec& spec) {
  if (std::string fault = count_fault(spec); !fault.empty()) return fault;
  if (!is_collective(spec.kind)) {
    return spec.group == no_group ? kernel_fault(program, spec) : "has a group but is no collective";
  }
  return spec.group == no_group ? "has no group" : collective_fault(program, spec);
}

// Whether the operands of `op` are what its spec says; their number is checked when the op is appended.
bool fits_spec(const Program& program, const Body& body, const Op& op) {
  const auto fits = [&](std::span<const std::uint32_t> tensors, const std::vector<std::uint32_t>& specs) {
    return std::equal(tensors.begin(), tensors.end(), specs.begin(), specs.end(),
                      [&](std::uint32_t t, std::uint32_t spec) { return body.tensors[t].spec == spec; });
  };
  return fits(program.reads(body, op), program.spec(op).reads) &&
         fits(program.writes(body, op), program.spec(op).writes);
}

}  // namespace

void check_operands(const Program& program, Findings& findings) {
  std::vector<bool> reported(program.op_specs.size(), false);
  std::vector<std::string> faults;
  for (const OpSpec& spec : program.op_specs) faults.push_back(fault_of(program, spec));
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
    findings.check_interrupt();
    const int rank = findings.rank_of_body(b);
    if (rank < 0) continue;
    const Body& body = program.bodies[b];
    for (std::size_t i = 0; i < body.ops.size() && !findings.full(); ++i) {
      const Op& op = body.ops[i];
      if (!fits_spec(program, body, op)) {
        findings.add(Fault::operand_mismatch, rank, i, "has other operands than its spec");
      }
      if (faults[op.spec].empty() || reported[op.spec]) continue;
      reported[op.spec] = true;
      findings.add(Fault::operand_mismatch, rank, i, faults[op.spec]);
    }
  }
}

}  // namespace meshweave
