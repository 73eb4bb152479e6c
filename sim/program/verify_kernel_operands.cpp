// The rules for the operands of kernels: shapes, dtypes, and over what a result is a partial sum.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/program/operand_expectations.h"

namespace meshweave {
namespace {

AxisMask token_axes(const TensorSpec& t) { return joined(sharded(t, 0), sharded(t, 1)); }

AxisMask feature_axes(const TensorSpec& t) {
  AxisMask axes = 0;
  for (std::size_t i = 2; i < t.rank; ++i) axes = joined(axes, sharded(t, i));
  return axes;
}

HeldPart part_of_features(const TensorSpec& t) {
  for (std::size_t i = 2; i < t.rank; ++i) {
    if (t.dimensions[i].held.visits()) return t.dimensions[i].held;
  }
  return {};
}

std::int64_t features(const TensorSpec& t) {
  std::int64_t n = 1;
  for (std::size_t i = 2; i < t.rank; ++i) n *= size(t, i);
  return n;
}

class KernelOperands : public OperandExpectations {
 public:
  using OperandExpectations::OperandExpectations;

  std::string fault() {
    check();
    return take_fault();
  }

 private:
  void check() {
    switch (spec().kind) {
      case OpKind::matmul: return matmul();
      case OpKind::bias_gradient: return bias_gradient();
      case OpKind::attention: return attention(0);
      case OpKind::attention_backward: return attention_backward();
      case OpKind::attention_merge: return attention_merge();
      case OpKind::batched_matmul: return batched_matmul();
      case OpKind::dropout: return dropout();
      case OpKind::dropout_backward: return dropout_backward();
      case OpKind::norm: return norm();
      case OpKind::norm_backward: return norm_backward();
      case OpKind::norm_weight_gradient: return norm_weight_gradient();
      case OpKind::activation: return activation(in(0), out(0));
      case OpKind::activation_backward: return activation_backward();
      case OpKind::rope:
      case OpKind::rope_backward: return rope();
      case OpKind::residual_add: return residual_add();
      case OpKind::add: return add();
      case OpKind::embedding: return embedding();
      case OpKind::embedding_gradient: return embedding_gradient();
      case OpKind::position_add: return position_add();
      case OpKind::position_gradient: return position_gradient();
      case OpKind::cross_entropy_max:
      case OpKind::cross_entropy_sum: return cross_entropy_of_logits();
      case OpKind::cross_entropy_loss: return cross_entropy_loss();
      case OpKind::cross_entropy_backward: return cross_entropy_backward();
      case OpKind::reorder: return reorder();
      case OpKind::softmax:
      case OpKind::softmax_backward: return elementwise();
      case OpKind::gradient_norm: return gradient_norm();
      case OpKind::clip: return clip();
      case OpKind::adam: return adam();
      case OpKind::fill:
      case OpKind::point_to_point: return;  // fits anything; a batch is checked against its messages
      case OpKind::all_reduce:
      case OpKind::all_gather:
      case OpKind::reduce_scatter:
      case OpKind::reduce:
      case OpKind::broadcast:
      case OpKind::all_to_all: bug("a collective is no kernel");
    }
  }

  // The token dimensions [sequence, batch] that both begin with.
  void expect_same_tokens(const TensorSpec& a, const TensorSpec& b) {
    expect_fit(a.dimensions[0] == b.dimensions[0] && a.dimensions[1] == b.dimensions[1] && a.runs == b.runs, a, b);
  }

  void expect_mask(const TensorSpec& mask, const TensorSpec& of) {
    expect_same_shape(mask, of);
    expect_type(mask, DType::uint8);
  }

  // A gradient that is added to: the read and the written operand are one tensor, partial over the axes of
  // the contributions. Pipeline ranks that share a table contribute different parts, so that pp may be added.
  void expect_accumulation(std::size_t read, std::size_t write, AxisMask contribution) {
    const TensorSpec& t = out(write);
    expect(spec().reads[read] == spec().writes[write],
           [&] { return fmt::format("writes {} but accumulates {}", t.name, in(read).name); });
    const AxisMask pipeline = mask_of(Axis::pp);
    expect_partial(t, joined(contribution, static_cast<AxisMask>(t.partial & pipeline)));
  }

  // Operands read, an accumulated result left out.
  std::size_t inputs() const { return reads() - (spec().attributes.accumulates ? writes() : 0); }

  // A parameter's gradient: added to the main gradient, or of a visitor and made anew.
  void expect_gradient(AxisMask contribution) {
    if (inputs() == reads()) return expect_partial(out(0), contribution);
    // What a visitor's gradient grows by on its way has a name for each rank.
    const bool travels = std::any_of(out(0).dimensions.begin(), out(0).dimensions.begin() + out(0).rank,
                                     [](const Dimension& d) { return d.held.visits(); });
    if (travels) return expect_result(contribution);
    expect_accumulation(reads() - 1, 0, contribution);
  }

  // The result of a product, which is added to where it is read too.
  void expect_result(AxisMask partial) {
    expect_partial(out(0), partial);
    if (inputs() == reads()) return;
    expect_same_shape(in(reads() - 1), out(0));
    expect_partial(in(reads() - 1), partial);
    expect_type(in(reads() - 1), out(0).dtype);
  }

  void elementwise() {
    expect_all_whole();
    for (std::size_t i = 0; i < reads(); ++i) expect_same_shape(in(i), out(0));
  }

  void matmul() {
    switch (spec().attributes.matmul) {
      case MatmulForm::forward: return matmul_forward();
      case MatmulForm::data_gradient: return matmul_data_gradient();
      case MatmulForm::weight_gradient: return matmul_weight_gradient();
    }
  }

  // The columns of W [outputs, inputs] are contracted with the features of x, its rows are the features of y.
  void expect_features(const TensorSpec& weight, std::size_t dimension, std::int64_t count, AxisMask axes,
                       const TensorSpec& activation) {
    expect_fit(weight.rank == 2 && size(weight, dimension) == count && sharded(weight, dimension) == axes &&
                   (axes == 0 || weight.dimensions[dimension].held == part_of_features(activation)),
               activation, weight);
  }

  void matmul_forward() {
    const TensorSpec& x = in(0);
    const TensorSpec& weight = in(1);
    expect_whole(weight);
    expect_features(weight, 1, features(x), feature_axes(x), x);
    const AxisMask partial = joined(x.partial, contracted_axes(weight.dimensions[1]));
    std::int64_t outputs = 0;
    for (std::size_t i = 0; i < writes(); ++i) {
      expect_same_tokens(x, out(i));
      expect_partial(out(i), partial);
      outputs += features(out(i));
    }
    if (inputs() < reads()) expect_result(partial);
    expect_features(weight, 0, outputs, feature_axes(out(0)), out(0));
    if (!spec().attributes.bias) return;
    expect_fit(in(2).rank == 1 && in(2).dimensions[0] == weight.dimensions[0], in(2), weight);
    expect(partial == 0, [&] { return fmt::format("adds bias {} to a partial product", in(2).name); });
  }

  void matmul_data_gradient() {
    const TensorSpec& weight = in(inputs() - 1);
    expect_whole(weight);
    std::int64_t outputs = 0;
    for (std::size_t i = 0; i + 1 < inputs(); ++i) {
      expect_same_tokens(in(i), out(0));
      expect_partial(in(i), in(0).partial);
      outputs += features(in(i));
    }
    expect_features(weight, 0, outputs, feature_axes(in(0)), in(0));
    expect_features(weight, 1, features(out(0)), feature_axes(out(0)), out(0));
    expect_result(joined(in(0).partial, contracted_axes(weight.dimensions[0])));
  }

  void matmul_weight_gradient() {
    const TensorSpec& x = in(inputs() - 1);
    const TensorSpec& weight = out(0);
    expect_whole(x);
    expect_features(weight, 1, features(x), feature_axes(x), x);
    std::int64_t outputs = 0;
    for (std::size_t i = 0; i + 1 < inputs(); ++i) {
      expect_same_tokens(in(i), x);
      expect_partial(in(i), in(0).partial);
      outputs += features(in(i));
    }
    expect_features(weight, 0, outputs, feature_axes(in(0)), in(0));
    expect_gradient(joined(in(0).partial, token_axes(x)));
  }

  void bias_gradient() {
    std::int64_t outputs = 0;
    for (std::size_t i = 0; i < inputs(); ++i) {
      expect_partial(in(i), in(0).partial);
      outputs += features(in(i));
    }
    expect_fit(out(0).rank == 1 && size(out(0), 0) == outputs && sharded(out(0), 0) == feature_axes(in(0)), in(0),
               out(0));
    expect_gradient(joined(in(0).partial, token_axes(in(0))));
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
    expect_fit(lse.rank == 3 && std::equal(lse.dimensions.begin(), lse.dimensions.begin() + 3, q.dimensions.begin()),
               lse, q);
  }

  void attention(std::size_t first) {
    expect_all_whole();
    expect_heads(first);
    expect_same_shape(out(0), in(first));
    if (writes() > 1) expect_log_sum_exp(out(1), in(first));
  }

  void attention_backward() {
    for (std::size_t i = 0; i < reads(); ++i) expect_whole(in(i));
    expect_partial(out(0), 0);
    // Each rank has the gradients that its own queries contribute.
    for (std::size_t i = 1; i < 3; ++i) expect_partial(out(i), without(token_axes(in(1)), token_axes(in(2))));
    expect_heads(1);
    expect_same_shape(in(0), in(1));
    expect_same_shape(in(4), in(1));
    expect_log_sum_exp(in(5), in(1));
    for (std::size_t i = 0; i < 3; ++i) expect_same_shape(out(i), in(1 + i));
  }

  void attention_merge() {
    expect_all_whole();
    for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
      expect_same_shape(in(i), out(0));
      expect_log_sum_exp(in(i + 1), out(0));
    }
    if (writes() > 1) expect_log_sum_exp(out(1), out(0));
  }

  // `all` is [s, b, heads, s of the keys].
  void expect_product(const TensorSpec& query, const TensorSpec& key, const TensorSpec& all) {
    expect_fit(query.rank == 4 && all.rank == 4 && size(query, 0) == size(all, 0) && size(query, 1) == size(all, 1) &&
                   size(query, 2) == size(all, 2) && sharded(query, 2) == sharded(all, 2),
               query, all);
    expect_fit(key.rank == 4 && size(key, 0) == size(all, 3) && size(key, 1) == size(all, 1) &&
                   size(all, 2) % size(key, 2) == 0 && size(key, 3) == size(query, 3),
               key, all);
  }

  void batched_matmul() {
    const BatchedForm form = spec().attributes.batched;
    const bool of_keys = form == BatchedForm::d_value || form == BatchedForm::d_key;
    expect_whole(in(0));
    expect_whole(in(1));
    // Of gathered keys each rank has the gradients that its own queries make.
    expect_partial(out(0), of_keys ? without(token_axes(in(0)), token_axes(out(0))) : AxisMask{0});
    switch (spec().attributes.batched) {
      case BatchedForm::scores:
      case BatchedForm::d_probabilities: return expect_product(in(0), in(1), out(0));
      case BatchedForm::context:
      case BatchedForm::d_query: return expect_product(out(0), in(1), in(0));
      case BatchedForm::d_value: return expect_product(in(0), out(0), in(1));
      case BatchedForm::d_key: return expect_product(in(1), out(0), in(0));
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
    for (std::size_t i = 0; i < writes(); ++i) {
      expect_vector(out(i), in(1));
      expect_accumulation(3 + i, i, token_axes(in(1)));
    }
  }

  // A gated activation reads its two halves side by side.
  void activation(const TensorSpec& x, const TensorSpec& y) {
    expect_all_whole();
    const bool gated = spec().attributes.activation == Activation::swiglu;
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
    if (spec().attributes.bias) expect_vector(in(2), out(0));
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
    expect_gradient(joined(in(0).partial, token_axes(in(0))));
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
    if (spec().kind == OpKind::cross_entropy_max) return;
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

  // The same rows in another order.
  void reorder() {
    expect_same_but(in(0), out(0), 0);
    expect_fit(size(in(0), 0) == size(out(0), 0) && sharded(in(0), 0) == sharded(out(0), 0), in(0), out(0));
    expect_partial(out(0), in(0).partial);
    expect_type(out(0), in(0).dtype);
  }

  void gradient_norm() {
    for (std::size_t i = 0; i < reads(); ++i) expect_whole(in(i));
    expect(out(0).elements() == 1, [&] { return shape(out(0)) + " is no single number"; });
  }

  void clip() {
    expect_all_whole();
    expect(in(0).elements() == 1, [&] { return shape(in(0)) + " is no single number"; });
    expect(std::equal(spec().reads.begin() + 1, spec().reads.end(), spec().writes.begin(), spec().writes.end()),
           [&] { return "writes other gradients than it reads"; });
  }

  void adam() {
    expect_all_whole();
    for (std::size_t i = 1; i < reads(); ++i) expect_fit(in(i).elements() == in(0).elements(), in(i), in(0));
    for (std::size_t i = 0; i < writes(); ++i) expect_fit(out(i).elements() == in(0).elements(), out(i), in(0));
  }
};

}  // namespace

std::string kernel_fault(const Program& program, const OpSpec& spec) { return KernelOperands(program, spec).fault(); }

}  // namespace meshweave
