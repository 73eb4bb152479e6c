#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/program/operand_expectations.h"
#include "sim/program/verify_parts.h"

namespace meshweave {
namespace {

// Operands are counted before they are looked at.
struct Arity {
  std::size_t fewest_reads, most_reads, fewest_writes, most_writes;
};
constexpr std::size_t any = std::numeric_limits<std::size_t>::max();

Arity arity_of(const OpSpec& spec) {
  switch (spec.kind) {
    case OpKind::matmul:
      switch (spec.attributes.matmul) {
        case MatmulForm::forward: return {spec.attributes.bias ? 3u : 2u, spec.attributes.bias ? 4u : 3u, 1, any};
        case MatmulForm::data_gradient: return {2, any, 1, 1};
        case MatmulForm::weight_gradient: return {2, any, 1, 1};
      }
      return {0, any, 0, any};
    case OpKind::bias_gradient: return {1, any, 1, 1};
    case OpKind::attention: return {3, 3, 1, 3};
    case OpKind::attention_backward: return {6, 7, 3, 3};
    case OpKind::attention_merge: return {4, 4, 1, 2};
    case OpKind::batched_matmul: return {2, 2, 1, 1};
    case OpKind::dropout: return {1, 1, 1, 2};
    case OpKind::norm: return {2, 3, 1, 2};
    case OpKind::norm_backward: return {4, 4, 1, 1};
    case OpKind::norm_weight_gradient: return {4, 5, 1, 2};
    case OpKind::rope:
    case OpKind::rope_backward: return {2, 2, 2, 2};
    case OpKind::residual_add: return {spec.attributes.bias ? 3u : 2u, spec.attributes.bias ? 3u : 2u, 1, 2};
    case OpKind::add: return {2, any, 1, 1};
    case OpKind::embedding_gradient: return {2, 3, 1, 1};
    case OpKind::softmax_backward:
    case OpKind::dropout_backward:
    case OpKind::activation_backward:
    case OpKind::embedding:
    case OpKind::position_add:
    case OpKind::position_gradient: return {2, 2, 1, 1};
    case OpKind::cross_entropy_sum: return {3, 3, 2, 2};
    case OpKind::cross_entropy_loss: return {3, 3, 1, 1};
    case OpKind::cross_entropy_backward: return {3, 3, 1, 1};
    case OpKind::concat: return {1, any, 1, 1};
    case OpKind::fill: return {0, 0, 1, any};
    case OpKind::gradient_norm: return {0, any, 1, 1};  // a stage may hold the copy of a tied table only
    case OpKind::clip: return {1, any, 0, any};
    case OpKind::adam: return {4, any, 3, any};
    case OpKind::point_to_point: return {0, any, 0, any};
    case OpKind::all_reduce:
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::reduce:
    case OpKind::broadcast:
    case OpKind::all_to_all: return {1, any, 1, any};
    default: return {1, 1, 1, 1};
  }
}

// What is wrong with an op spec; empty when nothing is.
std::string fault_of(const Program& program, const OpSpec& spec) {
  const Arity arity = arity_of(spec);
  const std::size_t reads = spec.reads.size();
  const std::size_t writes = spec.writes.size();
  if (reads < arity.fewest_reads || reads > arity.most_reads) return fmt::format("reads {} operands", reads);
  if (writes < arity.fewest_writes || writes > arity.most_writes) return fmt::format("writes {} operands", writes);
  if (is_collective(spec.kind) && reads != writes && reads != 2 * writes)
    return fmt::format("reads {} operands and writes {}", reads, writes);
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
