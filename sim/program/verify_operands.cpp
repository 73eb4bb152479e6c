#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/program/verify_parts.h"

namespace meshweave {
namespace {

using Size = std::int64_t;

AxisMask sharded(const TensorSpec& t, std::size_t dimension) {
  return t.dimensions[dimension].sharded_over;
}
Size size(const TensorSpec& t, std::size_t dimension) {
  return t.dimensions[dimension].size;
}
bool same_dimensions(const TensorSpec& a, const TensorSpec& b) {
  return a.rank == b.rank && a.dimensions == b.dimensions;
}
AxisMask joined(AxisMask a, AxisMask b) {
  return static_cast<AxisMask>(a | b);
}
AxisMask without(AxisMask a, AxisMask b) {
  return static_cast<AxisMask>(a & ~b);
}

std::string shape(const TensorSpec& t) {
  std::string out = t.name + "[";
  for (std::size_t i = 0; i < t.rank; ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : ",", size(t, i));
    if (sharded(t, i) != 0) out += "/" + names_of(sharded(t, i));
  }
  return out + "]";
}

// Operands are counted before they are looked at.
struct Arity {
  std::size_t fewest_reads, most_reads, fewest_writes, most_writes;
};
constexpr std::size_t any = std::numeric_limits<std::size_t>::max();

Arity arity_of(const OpSpec& spec) {
  switch (spec.kind) {
    case OpKind::matmul:
      switch (spec.attributes.matmul) {
        case MatmulForm::forward:
          return {spec.attributes.bias ? 3u : 2u, spec.attributes.bias ? 3u : 2u, 1, any};
        case MatmulForm::data_gradient:
          return {2, any, 1, 1};
        case MatmulForm::weight_gradient:
          return {3, any, 1, 1};
      }
      return {0, any, 0, any};
    case OpKind::bias_gradient:
      return {2, any, 1, 1};
    case OpKind::attention:
      return {3, 3, 1, 3};
    case OpKind::attention_backward:
      return {6, 7, 3, 3};
    case OpKind::batched_matmul:
      return {2, 2, 1, 1};
    case OpKind::dropout:
      return {1, 1, 1, 2};
    case OpKind::norm:
      return {2, 3, 1, 2};
    case OpKind::norm_backward:
      return {4, 4, 1, 1};
    case OpKind::norm_weight_gradient:
      return {4, 5, 1, 2};
    case OpKind::rope:
    case OpKind::rope_backward:
      return {2, 2, 2, 2};
    case OpKind::residual_add:
      return {spec.attributes.bias ? 3u : 2u, spec.attributes.bias ? 3u : 2u, 1, 2};
    case OpKind::add:
      return {2, any, 1, 1};
    case OpKind::embedding_gradient:
      return {3, 3, 1, 1};
    case OpKind::softmax_backward:
    case OpKind::dropout_backward:
    case OpKind::activation_backward:
    case OpKind::embedding:
    case OpKind::position_add:
    case OpKind::position_gradient:
      return {2, 2, 1, 1};
    case OpKind::cross_entropy_sum:
      return {3, 3, 2, 2};
    case OpKind::cross_entropy_loss:
      return {3, 3, 1, 1};
    case OpKind::cross_entropy_backward:
      return {3, 3, 1, 1};
    case OpKind::concat:
      return {1, any, 1, 1};
    case OpKind::fill:
      return {0, 0, 1, any};
    case OpKind::gradient_norm:
      return {0, any, 1, 1};  // a stage may hold the copy of a tied table only
    case OpKind::clip:
      return {1, any, 0, any};
    case OpKind::adam:
      return {4, any, 3, any};
    case OpKind::point_to_point:
      return {0, any, 0, any};
    default:
      return {1, 1, 1, 1};
  }
}

// The checks of one op spec. The first that fails is kept: later ones may follow from it.
class OperandCheck {
 public:
  OperandCheck(const Program& program, const OpSpec& spec) : program_(program), spec_(spec) {}

  // What is wrong; empty when nothing is.
  std::string run() {
    const Arity arity = arity_of(spec_);
    expect(reads() >= arity.fewest_reads && reads() <= arity.most_reads,
           [&] { return fmt::format("reads {} operands", reads()); });
    expect(writes() >= arity.fewest_writes && writes() <= arity.most_writes,
           [&] { return fmt::format("writes {} operands", writes()); });
    expect(is_collective(spec_.kind) == (spec_.group != no_group),
           [&] { return is_collective(spec_.kind) ? "has no group" : "has a group but is no collective"; });
    if (fault_.empty()) check_kind();
    return std::move(fault_);
  }

 private:
  std::size_t reads() const { return spec_.reads.size(); }
  std::size_t writes() const { return spec_.writes.size(); }
  const TensorSpec& in(std::size_t i) const { return program_.tensor_specs[spec_.reads[i]]; }
  const TensorSpec& out(std::size_t i) const { return program_.tensor_specs[spec_.writes[i]]; }

  template <typename Text>
  void expect(bool condition, Text text) {
    if (!condition && fault_.empty()) fault_ = std::string(text());
  }

  // --- what several kinds ask for
  // -------------------------------------------------------------------------------

  void expect_whole(const TensorSpec& t) {
    expect(t.partial == 0,
           [&] { return fmt::format("reads {}, still partial over {}", t.name, names_of(t.partial)); });
  }
  void expect_all_whole() {
    for (std::size_t i = 0; i < reads(); ++i) expect_whole(in(i));
    for (std::size_t i = 0; i < writes(); ++i) expect_partial(out(i), 0);
  }
  void expect_partial(const TensorSpec& t, AxisMask axes) {
    expect(t.partial == axes, [&] {
      return fmt::format("{} is marked partial over {} (its sum is over {})", t.name, names_of(t.partial),
                         names_of(axes));
    });
  }
  void expect_same_shape(const TensorSpec& a, const TensorSpec& b) {
    expect(same_dimensions(a, b), [&] { return fmt::format("{} does not fit {}", shape(a), shape(b)); });
  }
  void expect_fit(bool condition, const TensorSpec& a, const TensorSpec& b) {
    expect(condition, [&] { return fmt::format("{} does not fit {}", shape(a), shape(b)); });
  }
  void expect_type(const TensorSpec& t, DType dtype) {
    expect(t.dtype == dtype,
           [&] { return fmt::format("{} is {} (must be {})", t.name, name_of(t.dtype), name_of(dtype)); });
  }
  // The token dimensions [sequence, batch] that both begin with.
  void expect_same_tokens(const TensorSpec& a, const TensorSpec& b) {
    expect_fit(a.dimensions[0] == b.dimensions[0] && a.dimensions[1] == b.dimensions[1], a, b);
  }
  void expect_mask(const TensorSpec& mask, const TensorSpec& of) {
    expect_same_shape(mask, of);
    expect_type(mask, DType::uint8);
  }
  AxisMask token_axes(const TensorSpec& t) const { return joined(sharded(t, 0), sharded(t, 1)); }
  AxisMask feature_axes(const TensorSpec& t) const {
    AxisMask axes = 0;
    for (std::size_t i = 2; i < t.rank; ++i) axes = joined(axes, sharded(t, i));
    return axes;
  }
  Size features(const TensorSpec& t) const {
    Size n = 1;
    for (std::size_t i = 2; i < t.rank; ++i) n *= size(t, i);
    return n;
  }

  // A gradient that is added to: the read and the written operand are one tensor, partial over the axes of
  // the contributions. Pipeline ranks that share a table contribute different parts, so that pp may be added.
  void expect_accumulation(std::size_t read, std::size_t write, AxisMask contribution) {
    const TensorSpec& t = out(write);
    expect(spec_.reads[read] == spec_.writes[write],
           [&] { return fmt::format("writes {} but accumulates {}", t.name, in(read).name); });
    const AxisMask pipeline = mask_of(Axis::pp);
    expect_partial(t, joined(contribution, static_cast<AxisMask>(t.partial & pipeline)));
  }

  // --- kinds
  // ----------------------------------------------------------------------------------------------------

  void check_kind() {
    switch (spec_.kind) {
      case OpKind::matmul:
        return matmul();
      case OpKind::bias_gradient:
        return bias_gradient();
      case OpKind::attention:
        return attention(0);
      case OpKind::attention_backward:
        return attention_backward();
      case OpKind::batched_matmul:
        return batched_matmul();
      case OpKind::dropout:
        return dropout();
      case OpKind::dropout_backward:
        return dropout_backward();
      case OpKind::norm:
        return norm();
      case OpKind::norm_backward:
        return norm_backward();
      case OpKind::norm_weight_gradient:
        return norm_weight_gradient();
      case OpKind::activation:
        return activation(in(0), out(0));
      case OpKind::activation_backward:
        return activation_backward();
      case OpKind::rope:
      case OpKind::rope_backward:
        return rope();
      case OpKind::residual_add:
        return residual_add();
      case OpKind::add:
        return add();
      case OpKind::embedding:
        return embedding();
      case OpKind::embedding_gradient:
        return embedding_gradient();
      case OpKind::position_add:
        return position_add();
      case OpKind::position_gradient:
        return position_gradient();
      case OpKind::cross_entropy_max:
      case OpKind::cross_entropy_sum:
        return cross_entropy_of_logits();
      case OpKind::cross_entropy_loss:
        return cross_entropy_loss();
      case OpKind::cross_entropy_backward:
        return cross_entropy_backward();
      case OpKind::slice:
        return slice();
      case OpKind::concat:
        return concat();
      case OpKind::softmax:
      case OpKind::softmax_backward:
        return elementwise();
      case OpKind::cast:
        return carry_over(false);
      case OpKind::copy_to_host:
      case OpKind::copy_to_device:
        return carry_over(true);
      case OpKind::gradient_norm:
        return gradient_norm();
      case OpKind::clip:
        return clip();
      case OpKind::adam:
        return adam();
      case OpKind::all_reduce:
      case OpKind::reduce:
        return reduction();
      case OpKind::all_gather:
        return all_gather();
      case OpKind::reduce_scatter:
        return reduce_scatter();
      case OpKind::broadcast:
        return broadcast();
      case OpKind::all_to_all:
        return all_to_all();
      case OpKind::fill:
      case OpKind::point_to_point:
        return;
    }
  }

  void elementwise() {
    expect_all_whole();
    for (std::size_t i = 0; i < reads(); ++i) expect_same_shape(in(i), out(0));
  }

  void carry_over(bool same_type) {
    expect_same_shape(in(0), out(0));
    expect_partial(out(0), in(0).partial);
    if (same_type) expect_type(out(0), in(0).dtype);
  }

  void matmul() {
    switch (spec_.attributes.matmul) {
      case MatmulForm::forward:
        return matmul_forward();
      case MatmulForm::data_gradient:
        return matmul_data_gradient();
      case MatmulForm::weight_gradient:
        return matmul_weight_gradient();
    }
  }

  // The columns of W [outputs, inputs] are contracted with the features of x, its rows are the features of y.
  void expect_features(const TensorSpec& weight, std::size_t dimension, Size count, AxisMask axes,
                       const TensorSpec& activation) {
    expect_fit(weight.rank == 2 && size(weight, dimension) == count && sharded(weight, dimension) == axes,
               activation, weight);
  }

  void matmul_forward() {
    const TensorSpec& x = in(0);
    const TensorSpec& weight = in(1);
    expect_whole(weight);
    expect_features(weight, 1, features(x), feature_axes(x), x);
    const AxisMask partial = joined(x.partial, sharded(weight, 1));
    Size outputs = 0;
    for (std::size_t i = 0; i < writes(); ++i) {
      expect_same_tokens(x, out(i));
      expect_partial(out(i), partial);
      outputs += features(out(i));
    }
    expect_features(weight, 0, outputs, feature_axes(out(0)), out(0));
    if (!spec_.attributes.bias) return;
    expect_fit(in(2).rank == 1 && in(2).dimensions[0] == weight.dimensions[0], in(2), weight);
    expect(partial == 0, [&] { return fmt::format("adds bias {} to a partial product", in(2).name); });
  }

  void matmul_data_gradient() {
    const TensorSpec& weight = in(reads() - 1);
    expect_whole(weight);
    Size outputs = 0;
    for (std::size_t i = 0; i + 1 < reads(); ++i) {
      expect_same_tokens(in(i), out(0));
      expect_partial(in(i), in(0).partial);
      outputs += features(in(i));
    }
    expect_features(weight, 0, outputs, feature_axes(in(0)), in(0));
    expect_features(weight, 1, features(out(0)), feature_axes(out(0)), out(0));
    expect_partial(out(0), joined(in(0).partial, sharded(weight, 0)));
  }

  void matmul_weight_gradient() {
    const TensorSpec& x = in(reads() - 2);
    const TensorSpec& weight = out(0);
    expect_whole(x);
    expect_features(weight, 1, features(x), feature_axes(x), x);
    Size outputs = 0;
    for (std::size_t i = 0; i + 2 < reads(); ++i) {
      expect_same_tokens(in(i), x);
      expect_partial(in(i), in(0).partial);
      outputs += features(in(i));
    }
    expect_features(weight, 0, outputs, feature_axes(in(0)), in(0));
    expect_accumulation(reads() - 1, 0, joined(in(0).partial, token_axes(x)));
  }

  void bias_gradient() {
    Size outputs = 0;
    for (std::size_t i = 0; i + 1 < reads(); ++i) {
      expect_partial(in(i), in(0).partial);
      outputs += features(in(i));
    }
    expect_fit(out(0).rank == 1 && size(out(0), 0) == outputs && sharded(out(0), 0) == feature_axes(in(0)),
               in(0), out(0));
    expect_accumulation(reads() - 1, 0, joined(in(0).partial, token_axes(in(0))));
  }

  // Operands q, k, v from `first` on: [s, b, heads, d], where several query heads may share a key-value head.
  void expect_heads(std::size_t first) {
    const TensorSpec& q = in(first);
    const TensorSpec& k = in(first + 1);
    expect_same_shape(k, in(first + 2));
    expect_fit(q.rank == 4 && k.rank == 4 && size(q, 1) == size(k, 1) && size(q, 3) == size(k, 3) &&
                   size(q, 2) % size(k, 2) == 0 && sharded(q, 2) == sharded(k, 2),
               q, k);
  }
  void expect_log_sum_exp(const TensorSpec& lse, const TensorSpec& q) {
    expect_fit(
        lse.rank == 3 && std::equal(lse.dimensions.begin(), lse.dimensions.begin() + 3, q.dimensions.begin()),
        lse, q);
  }

  void attention(std::size_t first) {
    expect_all_whole();
    expect_heads(first);
    expect_same_shape(out(0), in(first));
    if (writes() > 1) expect_log_sum_exp(out(1), in(first));
  }

  void attention_backward() {
    expect_all_whole();
    expect_heads(1);
    expect_same_shape(in(0), in(1));
    expect_same_shape(in(4), in(1));
    expect_log_sum_exp(in(5), in(1));
    for (std::size_t i = 0; i < 3; ++i) expect_same_shape(out(i), in(1 + i));
  }

  // `all` is [s, b, heads, s of the keys].
  void expect_product(const TensorSpec& query, const TensorSpec& key, const TensorSpec& all) {
    expect_fit(query.rank == 4 && all.rank == 4 && size(query, 0) == size(all, 0) &&
                   size(query, 1) == size(all, 1) && size(query, 2) == size(all, 2) &&
                   sharded(query, 2) == sharded(all, 2),
               query, all);
    expect_fit(key.rank == 4 && size(key, 0) == size(all, 3) && size(key, 1) == size(all, 1) &&
                   size(all, 2) % size(key, 2) == 0 && size(key, 3) == size(query, 3),
               key, all);
  }

  void batched_matmul() {
    expect_all_whole();
    switch (spec_.attributes.batched) {
      case BatchedForm::scores:
      case BatchedForm::d_probabilities:
        return expect_product(in(0), in(1), out(0));
      case BatchedForm::context:
      case BatchedForm::d_query:
        return expect_product(out(0), in(1), in(0));
      case BatchedForm::d_value:
        return expect_product(in(0), out(0), in(1));
      case BatchedForm::d_key:
        return expect_product(in(1), out(0), in(0));
    }
  }

  void dropout() {
    expect_all_whole();
    expect_same_shape(in(0), out(0));
    if (writes() > 1) expect_mask(out(1), in(0));
  }

  void dropout_backward() {
    expect_all_whole();
    expect_same_shape(in(0), out(0));
    expect_mask(in(1), in(0));
  }

  void expect_vector(const TensorSpec& vector, const TensorSpec& x) {
    expect_fit(vector.rank == 1 && vector.dimensions[0] == x.dimensions[x.rank - 1u], vector, x);
  }

  void norm() {
    expect_all_whole();
    expect_same_shape(in(0), out(0));
    for (std::size_t i = 1; i < reads(); ++i) expect_vector(in(i), in(0));
    if (writes() > 1) expect_same_tokens(out(1), in(0));
  }

  void norm_backward() {
    expect_all_whole();
    expect_same_shape(in(0), in(1));
    expect_same_tokens(in(2), in(1));
    expect_vector(in(3), in(1));
    expect_same_shape(out(0), in(1));
  }

  void norm_weight_gradient() {
    expect_whole(in(0));
    expect_whole(in(1));
    expect_same_shape(in(0), in(1));
    expect_same_tokens(in(2), in(1));
    expect(reads() == 3 + writes(),
           [&] { return fmt::format("accumulates {} of {} gradients", reads() - 3, writes()); });
    for (std::size_t i = 0; i < writes() && fault_.empty(); ++i) {
      expect_vector(out(i), in(1));
      expect_accumulation(3 + i, i, token_axes(in(1)));
    }
  }

  // A gated activation reads its two halves side by side.
  void activation(const TensorSpec& x, const TensorSpec& y) {
    expect_all_whole();
    const bool gated = spec_.attributes.activation == Activation::swiglu;
    expect_same_tokens(x, y);
    expect_fit(features(x) == (gated ? 2 : 1) * features(y) && feature_axes(x) == feature_axes(y), x, y);
  }

  void activation_backward() {
    activation(in(1), in(0));
    expect_same_shape(out(0), in(1));
  }

  void rope() {
    expect_all_whole();
    for (std::size_t i = 0; i < 2; ++i) expect_same_shape(in(i), out(i));
  }

  void residual_add() {
    expect_all_whole();
    expect_same_shape(in(0), out(0));
    expect_same_shape(in(1), out(0));
    if (spec_.attributes.bias) expect_vector(in(2), out(0));
    if (writes() > 1) expect_mask(out(1), out(0));
  }

  void add() {
    for (std::size_t i = 0; i < reads(); ++i) {
      expect_same_shape(in(i), out(0));
      expect_type(in(i), out(0).dtype);
      expect_partial(in(i), out(0).partial);
    }
  }

  void embedding() {
    expect_type(in(0), DType::int64);
    expect_whole(in(1));
    expect_same_tokens(in(0), out(0));
    expect_fit(in(1).rank == 2 && size(in(1), 1) == features(out(0)), in(1), out(0));
    expect_partial(out(0), sharded(in(1), 0));
  }

  void embedding_gradient() {
    expect_type(in(1), DType::int64);
    expect_same_tokens(in(1), in(0));
    expect_fit(out(0).rank == 2 && size(out(0), 1) == features(in(0)), out(0), in(0));
    expect_accumulation(2, 0, joined(in(0).partial, token_axes(in(0))));
  }

  // The rows of a position table serve the whole sequence, of which the rank may hold a share.
  void expect_positions(const TensorSpec& table, const TensorSpec& x) {
    expect_fit(table.rank == 2 && size(table, 1) == features(x) && size(table, 0) >= size(x, 0), table, x);
  }

  void position_add() {
    expect_all_whole();
    expect_same_shape(in(0), out(0));
    expect_positions(in(1), in(0));
  }

  void position_gradient() {
    expect_positions(out(0), in(0));
    expect_accumulation(1, 0, joined(in(0).partial, token_axes(in(0))));
  }

  void cross_entropy_of_logits() {
    const TensorSpec& logits = in(0);
    for (std::size_t i = 0; i < reads(); ++i) {
      expect_whole(in(i));
      expect_same_tokens(in(i), logits);
    }
    for (std::size_t i = 0; i < writes(); ++i) expect_same_tokens(out(i), logits);
    if (spec_.kind == OpKind::cross_entropy_max) return;
    expect_type(in(2), DType::int64);
    expect_same_shape(out(0), logits);
    expect_fit(features(out(1)) == 2, out(1), logits);
    expect_partial(out(1), sharded(logits, logits.rank - 1u));
  }

  void cross_entropy_loss() {
    expect_whole(in(0));
    expect_whole(in(1));
    expect_same_tokens(in(0), in(1));
    expect_fit(in(2).elements() == 1, in(2), in(0));
    expect_accumulation(2, 0, token_axes(in(0)));
  }

  void cross_entropy_backward() {
    expect_all_whole();
    expect_same_shape(in(0), out(0));
    expect_same_tokens(in(1), out(0));
    expect_same_tokens(in(2), out(0));
    expect_type(in(2), DType::int64);
  }

  // All dimensions but `changed`.
  void expect_same_but(const TensorSpec& a, const TensorSpec& b, std::size_t changed) {
    bool fits = a.rank == b.rank && changed < a.rank;
    for (std::size_t i = 0; fits && i < a.rank; ++i)
      fits = i == changed || a.dimensions[i] == b.dimensions[i];
    expect_fit(fits, a, b);
  }

  void slice() {
    const std::size_t d = spec_.attributes.dimension;
    expect_same_but(in(0), out(0), d);
    expect_fit(fault_.empty() && size(in(0), d) % size(out(0), d) == 0, in(0), out(0));
    expect_partial(out(0), in(0).partial);
    expect_type(out(0), in(0).dtype);
  }

  void concat() {
    const std::size_t d = spec_.attributes.dimension;
    Size sum = 0;
    for (std::size_t i = 0; i < reads(); ++i) {
      expect_same_but(in(i), out(0), d);
      expect_partial(in(i), out(0).partial);
      expect_type(in(i), out(0).dtype);
      sum += size(in(i), d);
    }
    expect_fit(sum == size(out(0), d), in(0), out(0));
  }

  void gradient_norm() {
    for (std::size_t i = 0; i < reads(); ++i) expect_whole(in(i));
    expect(out(0).elements() == 1, [&] { return shape(out(0)) + " is no single number"; });
  }

  void clip() {
    expect_all_whole();
    expect(in(0).elements() == 1, [&] { return shape(in(0)) + " is no single number"; });
    expect(std::equal(spec_.reads.begin() + 1, spec_.reads.end(), spec_.writes.begin(), spec_.writes.end()),
           [&] { return "writes other gradients than it reads"; });
  }

  void adam() {
    expect_all_whole();
    for (std::size_t i = 1; i < reads(); ++i) expect_fit(in(i).elements() == in(0).elements(), in(i), in(0));
    for (std::size_t i = 0; i < writes(); ++i)
      expect_fit(out(i).elements() == in(0).elements(), out(i), in(0));
  }

  // --- collectives
  // ----------------------------------------------------------------------------------------------

  const Group& group() const { return program_.groups[spec_.group]; }
  Size members() const {
    Size n = 1;
    for (const AxisPattern& p : group().patterns) n *= p.count;
    return n;
  }
  // The axes along which the group has several members.
  AxisMask summed_axes() const {
    AxisMask axes = 0;
    for (const AxisPattern& p : group().patterns)
      axes = joined(axes, p.count > 1 ? mask_of(p.axis) : AxisMask{0});
    return axes;
  }
  // Those that it covers whole.
  AxisMask covered_axes() const {
    AxisMask axes = 0;
    for (const AxisPattern& p : group().patterns) {
      if (p.count == program_.grids[group().module].degree(p.axis)) axes = joined(axes, mask_of(p.axis));
    }
    return static_cast<AxisMask>(axes & summed_axes());
  }

  // A sum is taken over axes that the operand is partial over, and removes those that the group covers whole;
  // of an axis that it covers in part (optimizer instances, first and last stage) the lowering says when the
  // sum is whole.
  void expect_summed() {
    const TensorSpec& x = in(0);
    const TensorSpec& y = out(0);
    expect_type(y, x.dtype);
    if (spec_.attributes.reduce == ReduceOp::max) {
      expect_whole(x);
      expect_partial(y, 0);
      return;
    }
    expect(without(summed_axes(), x.partial) == 0, [&] {
      return fmt::format("sums {} over {}, which is partial over {}", x.name, names_of(summed_axes()),
                         names_of(x.partial));
    });
    const AxisMask open = without(summed_axes(), covered_axes());
    const AxisMask left = without(x.partial, covered_axes());
    expect(without(y.partial, open) == without(left, open) && without(y.partial, left) == 0, [&] {
      return fmt::format("{} is marked partial over {} (what is left of {})", y.name, names_of(y.partial),
                         names_of(left));
    });
  }

  void reduction() {
    expect_same_shape(in(0), out(0));
    expect_summed();
  }

  // `whole` has the group's parts `part` side by side along `dimension`.
  void expect_parts(const TensorSpec& part, const TensorSpec& whole) {
    const std::size_t d = spec_.attributes.dimension;
    expect_same_but(part, whole, d);
    expect_fit(fault_.empty() && size(part, d) * members() == size(whole, d) &&
                   sharded(part, d) == joined(sharded(whole, d), summed_axes()) &&
                   (sharded(whole, d) & covered_axes()) == 0,
               part, whole);
  }

  void all_gather() {
    expect_whole(in(0));
    expect_partial(out(0), 0);
    expect_type(out(0), in(0).dtype);
    expect_parts(in(0), out(0));
  }

  void reduce_scatter() {
    expect_parts(out(0), in(0));
    expect_summed();
  }

  void broadcast() {
    expect_whole(in(0));
    expect_partial(out(0), 0);
    expect_same_shape(in(0), out(0));
    expect_type(out(0), in(0).dtype);
  }

  void all_to_all() {
    expect_whole(in(0));
    expect_partial(out(0), 0);
    expect_fit(in(0).elements() == out(0).elements(), in(0), out(0));
    expect_type(out(0), in(0).dtype);
  }

  const Program& program_;
  const OpSpec& spec_;
  std::string fault_;
};

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
  for (const OpSpec& spec : program.op_specs) faults.push_back(OperandCheck(program, spec).run());
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
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
