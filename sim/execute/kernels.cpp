#include "sim/execute/kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/base/error.h"
#include "sim/execute/kernel_base.h"

namespace meshweave {

namespace {

template <class T>
class Kernel : KernelBase<T> {
 public:
  using KernelBase<T>::KernelBase;

  // No default: an op kind without arithmetic does not compile.
  void run() {
    switch (call_.spec->kind) {
      case OpKind::matmul: return matmul();
      case OpKind::bias_gradient: return bias_gradient();
      case OpKind::attention:
      case OpKind::attention_backward:
      case OpKind::batched_matmul:
      case OpKind::softmax:
      case OpKind::softmax_backward:
      case OpKind::attention_merge: return run_attention_kernel(call_);
      case OpKind::dropout: return dropout();
      case OpKind::dropout_backward: return dropout_backward();
      case OpKind::norm: return norm();
      case OpKind::norm_backward: return norm_backward();
      case OpKind::norm_weight_gradient: return norm_weight_gradient();
      case OpKind::activation: return activation();
      case OpKind::activation_backward: return activation_backward();
      case OpKind::rope: return rope(1);
      case OpKind::rope_backward: return rope(-1);
      case OpKind::residual_add: return residual_add();
      case OpKind::add: return add();
      case OpKind::embedding: return embedding();
      case OpKind::embedding_gradient: return embedding_gradient();
      case OpKind::position_add: return position_add();
      case OpKind::position_gradient: return position_gradient();
      case OpKind::cross_entropy_max: return cross_entropy_max();
      case OpKind::cross_entropy_sum: return cross_entropy_sum();
      case OpKind::cross_entropy_loss: return cross_entropy_loss();
      case OpKind::cross_entropy_backward: return cross_entropy_backward();
      case OpKind::reorder: return reorder();
      case OpKind::fill: return fill();
      case OpKind::gradient_norm: return gradient_norm();
      case OpKind::clip: return clip();
      case OpKind::adam: return adam();
      case OpKind::all_reduce:
      case OpKind::all_gather:
      case OpKind::reduce_scatter:
      case OpKind::reduce:
      case OpKind::broadcast:
      case OpKind::all_to_all:
      case OpKind::point_to_point: bug("a communication is no kernel");
    }
  }

 private:
  using Base = KernelBase<T>;
  using Base::attributes_, Base::call_, Base::in, Base::kept, Base::matrix, Base::out, Base::reads, Base::sample,
      Base::samples, Base::vector, Base::weight, Base::writes;

  // Begins an accumulation: the last operands read are those written, as they were before.
  void begin_accumulation() {
    for (std::size_t i = 0; i < writes(); ++i) {
      const Operand<T>& before = in(reads() - writes() + i);
      if (before.data != out(i).data) vector(out(i)) = vector(before);
    }
  }

  // --- matrix products
  // ------------------------------------------------------------------------------------------

  // Operands read, those that are accumulated into left out.
  std::size_t inputs() const { return reads() - (attributes_.accumulates ? writes() : 0); }

  void matmul() {
    const bool adds = attributes_.accumulates;
    if (adds) begin_accumulation();
    switch (attributes_.matmul) {
      case MatmulForm::forward: {
        const MatrixMap<T> x = matrix(in(0));
        const MatrixMap<T> w = weight(in(1));
        std::int64_t row = 0;
        for (const Operand<T>& o : call_.writes) {
          MatrixMap<T> y = matrix(o);
          if (adds) {
            y.noalias() += x * w.middleRows(row, y.cols()).transpose();
          } else {
            y.noalias() = x * w.middleRows(row, y.cols()).transpose();
          }
          if (attributes_.bias) y.rowwise() += vector(in(2)).segment(row, y.cols());
          row += y.cols();
        }
        return;
      }
      case MatmulForm::data_gradient: {
        const MatrixMap<T> w = weight(in(inputs() - 1));
        MatrixMap<T> dx = matrix(out(0));
        if (!adds) dx.setZero();
        std::int64_t row = 0;
        for (std::size_t i = 0; i + 1 < inputs(); ++i) {
          const MatrixMap<T> dy = matrix(in(i));
          dx.noalias() += dy * w.middleRows(row, dy.cols());
          row += dy.cols();
        }
        return;
      }
      case MatmulForm::weight_gradient: {
        const MatrixMap<T> x = matrix(in(inputs() - 1));
        MatrixMap<T> dw = weight(out(0));
        if (!adds) dw.setZero();
        std::int64_t row = 0;
        for (std::size_t i = 0; i + 1 < inputs(); ++i) {
          const MatrixMap<T> dy = matrix(in(i));
          dw.middleRows(row, dy.cols()).noalias() += dy.transpose() * x;
          row += dy.cols();
        }
        return;
      }
    }
  }

  void bias_gradient() {
    VectorMap<T> db = vector(out(0));
    if (attributes_.accumulates) {
      begin_accumulation();
    } else {
      db.setZero();
    }
    std::int64_t column = 0;
    for (std::size_t i = 0; i < inputs(); ++i) {
      const MatrixMap<T> dy = matrix(in(i));
      db.segment(column, dy.cols()) += dy.colwise().sum();
      column += dy.cols();
    }
  }

  // --- elementwise
  // ----------------------------------------------------------------------------------------------

  // The index of element `e` of a [s, b, …] tensor in the whole batch's tensor; trailing dimensions as
  // sharded.
  std::int64_t whole_index(const Operand<T>& o, std::int64_t e) const {
    std::int64_t trailing = 0;
    std::int64_t factor = 1;
    for (std::size_t d = o.spec().rank; d-- > 2;) {
      trailing += (o.at.start[d] + e % o.size(d)) * factor;
      factor *= o.at.whole[d];
      e /= o.size(d);
    }
    const std::int64_t row = o.at.whole_row(e / o.size(1));
    return (row * samples(o) + sample(o, e % o.size(1))) * factor + trailing;
  }

  void dropout() {
    const std::uint64_t key = synthetic_key(call_.spec->label, call_.spec->module, call_.layer);
    for (std::int64_t e = 0; e < in(0).elements(); ++e) {
      const T keep = kept(key, whole_index(in(0), e));
      out(0).data[e] = in(0).data[e] * keep;
      if (writes() > 1) out(1).data[e] = keep > 0;
    }
  }

  void dropout_backward() {
    const T scale = static_cast<T>(1 / (1 - attributes_.dropout));
    vector(out(0)) = scale * vector(in(0)).cwiseProduct(vector(in(1)));
  }

  void residual_add() {
    MatrixMap<T> sum = matrix(out(0));
    const MatrixMap<T> y = matrix(in(1));
    Matrix<T> branch = y;
    if (attributes_.bias) branch.rowwise() += vector(in(2));
    if (attributes_.dropout > 0) {
      const std::uint64_t key = synthetic_key(call_.spec->label, call_.spec->module, call_.layer);
      for (std::int64_t e = 0; e < out(0).elements(); ++e) {
        const T keep = kept(key, whole_index(out(0), e));
        branch.data()[e] *= keep;
        if (writes() > 1) out(1).data[e] = keep > 0;
      }
    }
    sum = matrix(in(0)) + branch;
  }

  void add() {
    Vector<T> sum = vector(in(0));
    for (std::size_t i = 1; i < reads(); ++i) sum += vector(in(i));
    vector(out(0)) = sum;
  }

  void norm() {
    const MatrixMap<T> x = matrix(in(0));
    const VectorMap<T> gamma = vector(in(1));
    MatrixMap<T> y = matrix(out(0));
    const bool centred = attributes_.norm == Norm::layer_norm;
    for (std::int64_t t = 0; t < x.rows(); ++t) {
      const T mean = centred ? x.row(t).mean() : T(0);
      const T variance = (x.row(t).array() - mean).square().mean();
      const T inverse = 1 / std::sqrt(variance + static_cast<T>(norm_epsilon));
      y.row(t) = ((x.row(t).array() - mean) * inverse * gamma.array()).matrix();
      if (centred) y.row(t) += vector(in(2));
      if (writes() > 1) {
        if (centred) out(1).data[2 * t] = mean;
        out(1).data[centred ? 2 * t + 1 : t] = inverse;
      }
    }
  }

  // (x − mean)/deviation of token t.
  Vector<T> normalised(const MatrixMap<T>& x, const Operand<T>& statistics, std::int64_t t, T& inverse) const {
    const bool centred = attributes_.norm == Norm::layer_norm;
    inverse = statistics.data[centred ? 2 * t + 1 : t];
    const T mean = centred ? statistics.data[2 * t] : T(0);
    return ((x.row(t).array() - mean) * inverse).matrix();
  }

  void norm_backward() {
    const MatrixMap<T> dy = matrix(in(0));
    const MatrixMap<T> x = matrix(in(1));
    const VectorMap<T> gamma = vector(in(3));
    MatrixMap<T> dx = matrix(out(0));
    for (std::int64_t t = 0; t < x.rows(); ++t) {
      T inverse;
      const Vector<T> unit = normalised(x, in(2), t, inverse);
      const Vector<T> g = dy.row(t).cwiseProduct(gamma);
      const T along = g.dot(unit) / static_cast<T>(x.cols());
      const T mean = attributes_.norm == Norm::layer_norm ? g.mean() : T(0);
      dx.row(t) = ((g - along * unit).array() - mean) * inverse;
    }
  }

  void norm_weight_gradient() {
    begin_accumulation();
    const MatrixMap<T> dy = matrix(in(0));
    const MatrixMap<T> x = matrix(in(1));
    VectorMap<T> d_gamma = vector(out(0));
    for (std::int64_t t = 0; t < x.rows(); ++t) {
      T inverse;
      const Vector<T> unit = normalised(x, in(2), t, inverse);
      d_gamma += dy.row(t).cwiseProduct(unit);
    }
    if (writes() > 1) vector(out(1)) += dy.colwise().sum();
  }

  static T sigmoid(T x) { return 1 / (1 + std::exp(-x)); }

  void activation() {
    const MatrixMap<T> x = matrix(in(0));
    MatrixMap<T> y = matrix(out(0));
    switch (attributes_.activation) {
      case Activation::gelu: y = x.unaryExpr([](T v) { return v * T(0.5) * (1 + std::erf(v * T(M_SQRT1_2))); }); return;
      case Activation::squared_relu: y = x.unaryExpr([](T v) { return v > 0 ? v * v : T(0); }); return;
      case Activation::swiglu:
        y = x.leftCols(y.cols()).unaryExpr([](T v) { return v * sigmoid(v); }).cwiseProduct(x.rightCols(y.cols()));
        return;
    }
  }

  void activation_backward() {
    const MatrixMap<T> dy = matrix(in(0));
    const MatrixMap<T> x = matrix(in(1));
    MatrixMap<T> dx = matrix(out(0));
    switch (attributes_.activation) {
      case Activation::gelu:
        dx = dy.cwiseProduct(x.unaryExpr([](T v) {
          const T density = std::exp(-v * v / 2) * static_cast<T>(0.3989422804014327);
          return T(0.5) * (1 + std::erf(v * T(M_SQRT1_2))) + v * density;
        }));
        return;
      case Activation::squared_relu:
        dx = dy.cwiseProduct(x.unaryExpr([](T v) { return v > 0 ? 2 * v : T(0); }));
        return;
      case Activation::swiglu: {
        const std::int64_t half = dy.cols();
        const auto gate = x.leftCols(half);
        const auto up = x.rightCols(half);
        dx.rightCols(half) = dy.cwiseProduct(gate.unaryExpr([](T v) { return v * sigmoid(v); }));
        dx.leftCols(half) = dy.cwiseProduct(up).cwiseProduct(gate.unaryExpr([](T v) {
          const T s = sigmoid(v);
          return s * (1 + v * (1 - s));
        }));
        return;
      }
    }
  }

  // Turns pair (i, i + d/2) of position p by direction · p · base^(−2i/d).
  void rope(int direction) {
    for (std::size_t n = 0; n < 2; ++n) {
      const Operand<T>& x = in(n);
      const std::int64_t d = x.size(3), half = d / 2, per_row = x.size(1) * x.size(2);
      for (std::int64_t row = 0; row < x.size(0); ++row) {
        const double position = static_cast<double>(x.at.whole_row(row)) * direction;
        for (std::int64_t i = 0; i < half; ++i) {
          const double angle = position * std::pow(rope_base, -2.0 * static_cast<double>(i) / static_cast<double>(d));
          const T c = static_cast<T>(std::cos(angle)), s = static_cast<T>(std::sin(angle));
          for (std::int64_t h = 0; h < per_row; ++h) {
            const std::int64_t at = (row * per_row + h) * d + i;
            const T a = x.data[at], b = x.data[at + half];
            out(n).data[at] = a * c - b * s;
            out(n).data[at + half] = a * s + b * c;
          }
        }
      }
    }
  }

  // --- embedding and loss
  // ---------------------------------------------------------------------------------------

  // The local row of a token's entry in a vocabulary shard; −1 where another rank has it.
  static std::int64_t local_entry(const Operand<T>& ids, std::int64_t t, std::int64_t start, std::int64_t rows) {
    const std::int64_t row = static_cast<std::int64_t>(ids.data[t]) - start;
    return row >= 0 && row < rows ? row : -1;
  }

  void embedding() {
    MatrixMap<T> y = matrix(out(0));
    const MatrixMap<T> table = weight(in(1));
    for (std::int64_t t = 0; t < y.rows(); ++t) {
      const std::int64_t row = local_entry(in(0), t, in(1).at.start[0], table.rows());
      if (row < 0) {
        y.row(t).setZero();
      } else {
        y.row(t) = table.row(row);
      }
    }
  }

  void embedding_gradient() {
    MatrixMap<T> table = weight(out(0));
    if (attributes_.accumulates) {
      begin_accumulation();
    } else {
      table.setZero();
    }
    const MatrixMap<T> dy = matrix(in(0));
    for (std::int64_t t = 0; t < dy.rows(); ++t) {
      const std::int64_t row = local_entry(in(1), t, out(0).at.start[0], table.rows());
      if (row >= 0) table.row(row) += dy.row(t);
    }
  }

  void position_add() {
    const MatrixMap<T> x = matrix(in(0));
    const MatrixMap<T> table = weight(in(1));
    MatrixMap<T> y = matrix(out(0));
    const std::int64_t batch = in(0).size(1);
    for (std::int64_t t = 0; t < x.rows(); ++t) y.row(t) = x.row(t) + table.row(in(0).at.whole_row(t / batch));
  }

  void position_gradient() {
    begin_accumulation();
    const MatrixMap<T> dy = matrix(in(0));
    MatrixMap<T> table = weight(out(0));
    const std::int64_t batch = in(0).size(1);
    for (std::int64_t t = 0; t < dy.rows(); ++t) table.row(in(0).at.whole_row(t / batch)) += dy.row(t);
  }

  void cross_entropy_max() { vector(out(0)) = matrix(in(0)).rowwise().maxCoeff().transpose(); }

  void cross_entropy_sum() {
    const MatrixMap<T> logits = matrix(in(0));
    MatrixMap<T> exponentials = matrix(out(0));
    MatrixMap<T> sums = matrix(out(1));
    for (std::int64_t t = 0; t < logits.rows(); ++t) {
      const std::int64_t row = local_entry(in(2), t, in(0).at.start[2], logits.cols());
      // The target first: the exponentials may take the place of the logits.
      sums(t, 1) = row >= 0 ? logits(t, row) : T(0);
      exponentials.row(t) = (logits.row(t).array() - in(1).data[t]).exp();
      sums(t, 0) = exponentials.row(t).sum();
    }
  }

  // −log softmax of the target: log Σ exp(l − max) + max − l_target.
  void cross_entropy_loss() {
    const MatrixMap<T> sums = matrix(in(0));
    T loss = 0;
    for (std::int64_t t = 0; t < sums.rows(); ++t) loss += std::log(sums(t, 0)) + in(1).data[t] - sums(t, 1);
    out(0).data[0] = in(2).data[0] + static_cast<T>(attributes_.scale) * loss;
  }

  void cross_entropy_backward() {
    const MatrixMap<T> exponentials = matrix(in(0));
    const MatrixMap<T> sums = matrix(in(1));
    MatrixMap<T> d = matrix(out(0));
    const T scale = static_cast<T>(attributes_.scale);
    for (std::int64_t t = 0; t < d.rows(); ++t) {
      d.row(t) = exponentials.row(t) * (scale / sums(t, 0));
      const std::int64_t row = local_entry(in(2), t, in(0).at.start[2], d.cols());
      if (row >= 0) d(t, row) -= scale;
    }
  }

  // --- moving and filling
  // ---------------------------------------------------------------------------------------

  void reorder() {
    const Operand<T>& x = in(0);
    const std::int64_t rows = x.size(0), row = x.elements() / rows;
    std::vector<std::int64_t> place(static_cast<std::size_t>(x.at.whole[0]), -1);  // of a row of the whole in x
    for (std::int64_t i = 0; i < rows; ++i) place[static_cast<std::size_t>(x.at.whole_row(i))] = i;
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t from = place[static_cast<std::size_t>(out(0).at.whole_row(i))];
      std::copy_n(x.data + from * row, row, out(0).data + i * row);
    }
  }

  void fill() {
    for (const Operand<T>& o : call_.writes) vector(o).setZero();
  }

  // --- optimizer
  // ------------------------------------------------------------------------------------------------

  // A gradient that other ranks of the sum hold too counts on their first. Pipeline stages hold different
  // parameters.
  bool counts(const Operand<T>& gradient) const {
    const AxisMask summed = static_cast<AxisMask>(out(0).spec().partial & ~mask_of(Axis::pp));
    for (int a = 0; a < axis_count; ++a) {
      const AxisMask axis = mask_of(static_cast<Axis>(a));
      const bool replicated = (summed & axis) != 0 && (gradient.spec().dimensions[0].sharded_over & axis) == 0;
      if (replicated && call_.coordinates[static_cast<std::size_t>(a)] != 0) return false;
    }
    return true;
  }

  void gradient_norm() {
    T sum = 0;
    for (const Operand<T>& gradient : call_.reads) {
      if (counts(gradient)) sum += vector(gradient).squaredNorm();
    }
    out(0).data[0] = sum;
  }

  void clip() {
    const T norm = std::sqrt(in(0).data[0]);
    const T limit = static_cast<T>(attributes_.limit);
    const T factor = norm > limit ? limit / norm : T(1);
    for (std::size_t i = 0; i < writes(); ++i) vector(out(i)) = vector(in(i + 1)) * factor;
  }

  void adam() {
    const AdamSettings& s = attributes_.adam;
    const std::size_t moments = writes() - 3;  // behind the main parameters, where they are apart
    const T beta1 = static_cast<T>(s.beta1), beta2 = static_cast<T>(s.beta2);
    const T correct1 = static_cast<T>(1 - std::pow(s.beta1, call_.step + 1));
    const T correct2 = static_cast<T>(1 - std::pow(s.beta2, call_.step + 1));
    for (std::int64_t i = 0; i < in(0).elements(); ++i) {
      const T g = in(0).data[i];
      const T m = beta1 * in(2).data[i] + (1 - beta1) * g;
      const T v = beta2 * in(3).data[i] + (1 - beta2) * g * g;
      const T step = m / correct1 / (std::sqrt(v / correct2) + static_cast<T>(s.epsilon));
      const T parameter = in(1).data[i] - static_cast<T>(s.learning_rate) * step;
      out(moments).data[i] = m;
      out(moments + 1).data[i] = v;
      if (moments > 0) out(0).data[i] = parameter;
      out(writes() - 1).data[i] = parameter;
    }
  }
};

}  // namespace

template <class T>
void run_kernel(const KernelCall<T>& call) {
  Kernel<T>(call).run();
}

template void run_kernel(const KernelCall<float>&);
template void run_kernel(const KernelCall<double>&);

}  // namespace meshweave
