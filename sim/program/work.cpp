#include "sim/program/work.h"

#include <initializer_list>
#include <numeric>

#include "sim/base/error.h"

namespace meshweave {
namespace {

// The operand specs of one op spec, by position.
class Operands {
 public:
  Operands(const Program& program, const OpSpec& spec) : program_(program), spec_(spec) {}

  const TensorSpec& read(std::size_t i) const { return program_.tensor_specs[spec_.reads[i]]; }
  // The k-th from the end of those read, an accumulated result left out.
  const TensorSpec& read_from_end(std::size_t k) const {
    return read(spec_.reads.size() - k - (spec_.attributes.accumulates ? 1 : 0));
  }
  const TensorSpec& write(std::size_t i) const { return program_.tensor_specs[spec_.writes[i]]; }

  std::int64_t read_bytes() const { return sum_of_bytes(spec_.reads); }
  std::int64_t write_bytes() const { return sum_of_bytes(spec_.writes); }

 private:
  std::int64_t sum_of_bytes(const std::vector<std::uint32_t>& specs) const {
    return std::accumulate(specs.begin(), specs.end(), std::int64_t{0},
                           [&](std::int64_t sum, std::uint32_t s) { return sum + program_.tensor_specs[s].bytes(); });
  }

  const Program& program_;
  const OpSpec& spec_;
};

std::int64_t size_of(const TensorSpec& t, std::size_t dimension) { return t.dimensions[dimension].size; }

// W is [outputs, inputs]; the product is y = x·Wᵀ, dx = dy·W or dW = dyᵀ·x.
Work matmul_work(const Operands& operands, const OpSpec& spec) {
  Work work;
  switch (spec.attributes.matmul) {
    case MatmulForm::forward: {
      const TensorSpec& weight = operands.read(1);
      work.n = size_of(weight, 0);
      work.k = size_of(weight, 1);
      work.m = operands.read(0).elements() / work.k;
      break;
    }
    case MatmulForm::data_gradient: {
      const TensorSpec& weight = operands.read_from_end(1);
      work.n = size_of(weight, 1);
      work.k = size_of(weight, 0);
      work.m = operands.write(0).elements() / work.n;
      break;
    }
    case MatmulForm::weight_gradient: {
      const TensorSpec& weight = operands.write(0);
      const TensorSpec& input = operands.read_from_end(1);
      work.m = size_of(weight, 0);
      work.n = size_of(weight, 1);
      work.k = input.elements() / work.n;
      break;
    }
  }
  work.flops = 2.0 * static_cast<double>(work.m) * static_cast<double>(work.n) * static_cast<double>(work.k);
  return work;
}

// The FLOPs of one product over all (query, key) pairs: 2·b·a·s_q·s_kv·d. Queries are [s, b, a, d].
double pair_flops(const Work& work) {
  return 2.0 * static_cast<double>(work.batch) * static_cast<double>(work.q_length) *
         static_cast<double>(work.kv_length) * static_cast<double>(work.head_dim);
}

Work attention_shape(const TensorSpec& query, const TensorSpec& key) {
  Work work;
  work.q_length = size_of(query, 0);
  work.batch = size_of(query, 1) * size_of(query, 2);
  work.head_dim = size_of(query, 3);
  work.kv_length = size_of(key, 0);
  return work;
}

double visible_share(const OpSpec& spec) {
  if (spec.attributes.visible >= 0) return spec.attributes.visible;
  return spec.attributes.mask == AttentionMask::causal ? 0.5 : 1.0;
}

// Fused attention is two products forward (scores, context) and five backward (scores again, dp, dv, dq, dk).
Work attention_work(const Operands& operands, const OpSpec& spec) {
  const bool backward = spec.kind == OpKind::attention_backward;
  const std::size_t query = backward ? 1 : 0;
  Work work = attention_shape(operands.read(query), operands.read(query + 1));
  const double products = backward ? 5 : 2;
  work.visible = visible_share(spec);
  work.flops = products * work.visible * pair_flops(work);
  return work;
}

// d_value reads (do, p), d_key reads (ds, q): the position of the operand shaped as the queries.
std::size_t query_of_key_gradient(const OpSpec& spec) {
  return spec.attributes.batched == BatchedForm::d_value ? 0 : 1;
}

// Every form has one operand shaped as the queries, one as the keys, and one of all pairs.
Work batched_matmul_work(const Operands& operands, const OpSpec& spec) {
  Work work;
  switch (spec.attributes.batched) {
    case BatchedForm::scores:           // s = q·kᵀ
    case BatchedForm::d_probabilities:  // dp = do·vᵀ
      work = attention_shape(operands.read(0), operands.read(1));
      work.m = work.q_length, work.n = work.kv_length, work.k = work.head_dim;
      break;
    case BatchedForm::context:  // o = p·v
    case BatchedForm::d_query:  // dq = ds·k
      work = attention_shape(operands.write(0), operands.read(1));
      work.m = work.q_length, work.n = work.head_dim, work.k = work.kv_length;
      break;
    case BatchedForm::d_value:  // dv = pᵀ·do
    case BatchedForm::d_key:    // dk = dsᵀ·q
      work = attention_shape(operands.read(query_of_key_gradient(spec)), operands.write(0));
      work.m = work.kv_length, work.n = work.head_dim, work.k = work.q_length;
      break;
  }
  work.flops = pair_flops(work);
  return work;
}

// Bytes of `t`'s elements stored as `dtype`.
std::int64_t bytes_as(const TensorSpec& t, DType dtype) { return t.elements() * bytes_of(dtype); }

// A position table's touched rows: one per position, shared by the batch. x is [s, b, h].
std::int64_t position_bytes(const TensorSpec& x, const TensorSpec& table) {
  return bytes_as(x, table.dtype) / size_of(x, 1);
}

// Kernels that look up rows touch only these of the table.
std::int64_t bytes_with_rows(const Operands& operands, const OpSpec& spec) {
  switch (spec.kind) {
    case OpKind::embedding: {
      const TensorSpec& y = operands.write(0);
      return operands.read(0).bytes() + bytes_as(y, operands.read(1).dtype) + y.bytes();
    }
    case OpKind::embedding_gradient: {
      const TensorSpec& dy = operands.read(0);
      const TensorSpec& table = operands.write(0);
      const std::int64_t touched = 2 * bytes_as(dy, table.dtype);
      // A fresh table is zeroed first.
      return dy.bytes() + operands.read(1).bytes() + touched + (spec.attributes.accumulates ? 0 : table.bytes());
    }
    case OpKind::position_add: {
      const TensorSpec& x = operands.read(0);
      return x.bytes() + position_bytes(x, operands.read(1)) + operands.write(0).bytes();
    }
    case OpKind::position_gradient: {
      const TensorSpec& dy = operands.read(0);
      return dy.bytes() + 2 * position_bytes(dy, operands.write(0));
    }
    default: bug("no rows that it touches: " + std::string(name_of(spec.kind)));
  }
}

}  // namespace

Work work_of(const Program& program, const OpSpec& spec) {
  const Operands operands(program, spec);
  Work work;
  const OpFacts& facts = facts_of(spec.kind);
  switch (facts.priced_as) {
    case PricedAs::product: work = matmul_work(operands, spec); break;
    case PricedAs::products: work = batched_matmul_work(operands, spec); break;
    case PricedAs::fused_attention: work = attention_work(operands, spec); break;
    case PricedAs::streaming:
    case PricedAs::elementwise:
    case PricedAs::norms:
    case PricedAs::norms_backward:
    case PricedAs::norm_sums:
    case PricedAs::loss_passes:
    case PricedAs::collective:
    case PricedAs::messages: break;
  }
  work.bytes = static_cast<double>(facts.has(OpFacts::rows) ? bytes_with_rows(operands, spec)
                                                            : operands.read_bytes() + operands.write_bytes());
  return work;
}

std::int64_t input_bytes(const Program& program, const OpSpec& spec) {
  const std::size_t inputs = spec.attributes.accumulates ? spec.writes.size() : spec.reads.size();
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < inputs; ++i) bytes += program.tensor_specs[spec.reads[i]].bytes();
  return bytes;
}

std::int64_t output_bytes(const Program& program, const OpSpec& spec) { return Operands(program, spec).write_bytes(); }

}  // namespace meshweave
