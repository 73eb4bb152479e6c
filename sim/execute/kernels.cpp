#include "sim/execute/kernels.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/error.h"
#include "sim/execute/synthetic.h"

namespace meshweave {

namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using Vector = Eigen::Matrix<T, 1, Eigen::Dynamic>;
template <class T>
using MatrixMap = Eigen::Map<Matrix<T>>;
template <class T>
using VectorMap = Eigen::Map<Vector<T>>;
template <class T>
using StridedMap = Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T>
class Kernel {
 public:
  explicit Kernel(const KernelCall<T>& call) : call_(call), attributes_(call.spec->attributes) {}

  // No default: an op kind without arithmetic does not compile.
  void run() {
    switch (call_.spec->kind) {
      case OpKind::matmul:
        return matmul();
      case OpKind::bias_gradient:
        return bias_gradient();
      case OpKind::attention:
        return attention();
      case OpKind::attention_backward:
        return attention_backward();
      case OpKind::batched_matmul:
        return batched_matmul();
      case OpKind::softmax:
        return softmax();
      case OpKind::softmax_backward:
        return softmax_backward();
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
        return activation();
      case OpKind::activation_backward:
        return activation_backward();
      case OpKind::rope:
        return rope(1);
      case OpKind::rope_backward:
        return rope(-1);
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
        return cross_entropy_max();
      case OpKind::cross_entropy_sum:
        return cross_entropy_sum();
      case OpKind::cross_entropy_loss:
        return cross_entropy_loss();
      case OpKind::cross_entropy_backward:
        return cross_entropy_backward();
      case OpKind::slice:
        return slice();
      case OpKind::concat:
        return concat();
      case OpKind::cast:
      case OpKind::copy_to_host:
      case OpKind::copy_to_device:
        return copy();
      case OpKind::fill:
        return fill();
      case OpKind::gradient_norm:
        return gradient_norm();
      case OpKind::clip:
        return clip();
      case OpKind::adam:
        return adam();
      case OpKind::all_reduce:
      case OpKind::all_gather:
      case OpKind::reduce_scatter:
      case OpKind::reduce:
      case OpKind::broadcast:
      case OpKind::all_to_all:
      case OpKind::point_to_point:
        bug("a communication is no kernel");
    }
  }

 private:
  const Operand<T>& in(std::size_t i) const { return call_.reads[i]; }
  const Operand<T>& out(std::size_t i) const { return call_.writes[i]; }
  std::size_t reads() const { return call_.reads.size(); }
  std::size_t writes() const { return call_.writes.size(); }

  static MatrixMap<T> matrix(const Operand<T>& o) { return {o.data, o.tokens(), o.features()}; }
  static MatrixMap<T> weight(const Operand<T>& o) { return {o.data, o.size(0), o.size(1)}; }
  static VectorMap<T> vector(const Operand<T>& o) { return {o.data, o.elements()}; }

  // The index of a token's sample in the global batch: micro-batches follow each other, and within one the
  // replicas.
  std::int64_t sample(const Operand<T>& o, std::int64_t batch) const {
    return call_.micro_batch * o.at.whole[1] + o.at.start[1] + batch;
  }

  // Begins an accumulation: the last operands read are those written, as they were before.
  void begin_accumulation() {
    for (std::size_t i = 0; i < writes(); ++i) {
      const Operand<T>& before = in(reads() - writes() + i);
      if (before.data != out(i).data) vector(out(i)) = vector(before);
    }
  }

  // --- matrix products
  // ------------------------------------------------------------------------------------------

  void matmul() {
    switch (attributes_.matmul) {
      case MatmulForm::forward: {
        const MatrixMap<T> x = matrix(in(0));
        const MatrixMap<T> w = weight(in(1));
        std::int64_t row = 0;
        for (const Operand<T>& o : call_.writes) {
          MatrixMap<T> y = matrix(o);
          y.noalias() = x * w.middleRows(row, y.cols()).transpose();
          if (attributes_.bias) y.rowwise() += vector(in(2)).segment(row, y.cols());
          row += y.cols();
        }
        return;
      }
      case MatmulForm::data_gradient: {
        const MatrixMap<T> w = weight(in(reads() - 1));
        MatrixMap<T> dx = matrix(out(0));
        dx.setZero();
        std::int64_t row = 0;
        for (std::size_t i = 0; i + 1 < reads(); ++i) {
          const MatrixMap<T> dy = matrix(in(i));
          dx.noalias() += dy * w.middleRows(row, dy.cols());
          row += dy.cols();
        }
        return;
      }
      case MatmulForm::weight_gradient: {
        begin_accumulation();
        const MatrixMap<T> x = matrix(in(reads() - 2));
        MatrixMap<T> dw = weight(out(0));
        std::int64_t row = 0;
        for (std::size_t i = 0; i + 2 < reads(); ++i) {
          const MatrixMap<T> dy = matrix(in(i));
          dw.middleRows(row, dy.cols()).noalias() += dy.transpose() * x;
          row += dy.cols();
        }
        return;
      }
    }
  }

  void bias_gradient() {
    begin_accumulation();
    VectorMap<T> db = vector(out(0));
    std::int64_t column = 0;
    for (std::size_t i = 0; i + 1 < reads(); ++i) {
      const MatrixMap<T> dy = matrix(in(i));
      db.segment(column, dy.cols()) += dy.colwise().sum();
      column += dy.cols();
    }
  }

  // --- attention
  // ------------------------------------------------------------------------------------------------

  // One head of one sample of [s, b, heads, d]: an s × d matrix.
  static StridedMap<T> head_of(const Operand<T>& o, std::int64_t batch, std::int64_t head) {
    const std::int64_t heads = o.size(2), d = o.size(3);
    return {o.data + (batch * heads + head) * d, o.size(0), d, Eigen::OuterStride<>(o.size(1) * heads * d)};
  }

  // Calls body(sample of the operand, query head, its key-value head).
  template <class Body>
  static void each_head(const Operand<T>& q, const Operand<T>& kv, Body body) {
    const std::int64_t shared = q.size(2) / kv.size(2);
    for (std::int64_t b = 0; b < q.size(1); ++b) {
      for (std::int64_t h = 0; h < q.size(2); ++h) body(b, h, h / shared);
    }
  }

  bool sees(std::int64_t query, std::int64_t key) const {
    return attributes_.mask == AttentionMask::full || key <= query;
  }

  // scale·q·kᵀ, −∞ where the mask hides the key.
  Matrix<T> masked_scores(const Operand<T>& q, const Operand<T>& k, std::int64_t b, std::int64_t h,
                          std::int64_t g) const {
    Matrix<T> s = static_cast<T>(attributes_.scale) * (head_of(q, b, h) * head_of(k, b, g).transpose());
    for (std::int64_t i = 0; i < s.rows(); ++i) {
      for (std::int64_t j = 0; j < s.cols(); ++j) {
        if (!sees(q.at.whole_row(i), k.at.whole_row(j))) s(i, j) = -std::numeric_limits<T>::infinity();
      }
    }
    return s;
  }

  // 0, or 1/(1 − p) where the dropout of attention keeps the pair (query, key).
  Matrix<T> attention_dropout(const Operand<T>& q, const Operand<T>& k, std::int64_t b,
                              std::int64_t h) const {
    Matrix<T> keep(q.size(0), k.size(0));
    const std::uint64_t key = synthetic_key(call_.spec->label + " dropout", call_.spec->module, call_.layer);
    for (std::int64_t i = 0; i < keep.rows(); ++i) {
      const std::int64_t row =
          (q.at.whole_row(i) * samples(q) + sample(q, b)) * q.at.whole[2] + q.at.start[2] + h;
      for (std::int64_t j = 0; j < keep.cols(); ++j) {
        keep(i, j) = kept(key, row * k.at.whole[0] + k.at.whole_row(j));
      }
    }
    return keep;
  }

  // A number of samples that no index reaches, so that elements of different samples have different indices.
  static std::int64_t samples(const Operand<T>&) { return std::int64_t{1} << 20; }

  T kept(std::uint64_t key, std::int64_t index) const {
    const double p = attributes_.dropout;
    return dropout_keeps(call_.seed, key, call_.step, index, p) ? static_cast<T>(1 / (1 - p)) : T(0);
  }

  void attention() {
    const Operand<T>& q = in(0);
    const Operand<T>& k = in(1);
    const Operand<T>& v = in(2);
    each_head(q, k, [&](std::int64_t b, std::int64_t h, std::int64_t g) {
      Matrix<T> s = masked_scores(q, k, b, h, g);
      for (std::int64_t i = 0; i < s.rows(); ++i) {
        const T largest = s.row(i).maxCoeff();
        s.row(i) = (s.row(i).array() - largest).exp();
        const T sum = s.row(i).sum();
        s.row(i) /= sum;
        if (writes() > 1) out(1).data[(i * q.size(1) + b) * q.size(2) + h] = largest + std::log(sum);
      }
      if (attributes_.dropout > 0) s.array() *= attention_dropout(q, k, b, h).array();
      head_of(out(0), b, h).noalias() = s * head_of(v, b, g);
    });
  }

  void attention_backward() {
    const Operand<T>& d_o = in(0);
    const Operand<T>& q = in(1);
    const Operand<T>& k = in(2);
    const Operand<T>& v = in(3);
    const Operand<T>& o = in(4);
    const Operand<T>& lse = in(5);
    const T scale = static_cast<T>(attributes_.scale);
    vector(out(1)).setZero();
    vector(out(2)).setZero();
    each_head(q, k, [&](std::int64_t b, std::int64_t h, std::int64_t g) {
      Matrix<T> p = masked_scores(q, k, b, h, g);
      for (std::int64_t i = 0; i < p.rows(); ++i) {
        p.row(i) = (p.row(i).array() - lse.data[(i * q.size(1) + b) * q.size(2) + h]).exp();
      }
      Matrix<T> dp = head_of(d_o, b, h) * head_of(v, b, g).transpose();
      Matrix<T> dropped = p;
      if (attributes_.dropout > 0) {
        const Matrix<T> keep = attention_dropout(q, k, b, h);
        dropped.array() *= keep.array();
        dp.array() *= keep.array();
      }
      const auto share = (head_of(d_o, b, h).array() * head_of(o, b, h).array()).rowwise().sum().eval();
      Matrix<T> ds = p.array() * (dp.array().colwise() - share);
      ds *= scale;
      head_of(out(0), b, h).noalias() = ds * head_of(k, b, g);
      head_of(out(1), b, g).noalias() += ds.transpose() * head_of(q, b, h);
      head_of(out(2), b, g).noalias() += dropped.transpose() * head_of(d_o, b, h);
    });
  }

  // One head of one sample of [s, b, heads, keys].
  static StridedMap<T> pairs_of(const Operand<T>& o, std::int64_t b, std::int64_t h) {
    return head_of(o, b, h);
  }

  void batched_matmul() {
    const T scale = static_cast<T>(attributes_.scale);
    switch (attributes_.batched) {
      case BatchedForm::scores:
        return each_head(in(0), in(1), [&](std::int64_t b, std::int64_t h, std::int64_t g) {
          pairs_of(out(0), b, h).noalias() = scale * head_of(in(0), b, h) * head_of(in(1), b, g).transpose();
        });
      case BatchedForm::context:
        return each_head(in(0), in(1), [&](std::int64_t b, std::int64_t h, std::int64_t g) {
          head_of(out(0), b, h).noalias() = pairs_of(in(0), b, h) * head_of(in(1), b, g);
        });
      case BatchedForm::d_probabilities:
        return each_head(in(0), in(1), [&](std::int64_t b, std::int64_t h, std::int64_t g) {
          pairs_of(out(0), b, h).noalias() = head_of(in(0), b, h) * head_of(in(1), b, g).transpose();
        });
      case BatchedForm::d_value:
        vector(out(0)).setZero();
        return each_head(in(1), out(0), [&](std::int64_t b, std::int64_t h, std::int64_t g) {
          head_of(out(0), b, g).noalias() += pairs_of(in(1), b, h).transpose() * head_of(in(0), b, h);
        });
      case BatchedForm::d_query:
        return each_head(in(0), in(1), [&](std::int64_t b, std::int64_t h, std::int64_t g) {
          head_of(out(0), b, h).noalias() = scale * pairs_of(in(0), b, h) * head_of(in(1), b, g);
        });
      case BatchedForm::d_key:
        vector(out(0)).setZero();
        return each_head(in(0), out(0), [&](std::int64_t b, std::int64_t h, std::int64_t g) {
          head_of(out(0), b, g).noalias() += scale * pairs_of(in(0), b, h).transpose() * head_of(in(1), b, h);
        });
    }
  }

  // Rows of [s, b, heads, keys]: (query, sample, head).
  void softmax() {
    const Operand<T>& x = in(0);
    const std::int64_t keys = x.size(3), per_query = x.size(1) * x.size(2);
    for (std::int64_t row = 0; row < x.size(0) * per_query; ++row) {
      const std::int64_t query = x.at.whole_row(row / per_query);
      const std::int64_t seen = attributes_.mask == AttentionMask::full ? keys : std::min(keys, query + 1);
      const VectorMap<T> s(x.data + row * keys, keys);
      VectorMap<T> p(out(0).data + row * keys, keys);
      const T largest = s.head(seen).maxCoeff();
      p.head(seen) = (s.head(seen).array() - largest).exp();
      p.tail(keys - seen).setZero();
      p.head(seen) /= p.head(seen).sum();
    }
  }

  void softmax_backward() {
    const std::int64_t keys = in(1).size(3);
    for (std::int64_t row = 0; row < in(1).elements() / keys; ++row) {
      const VectorMap<T> dp(in(0).data + row * keys, keys);
      const VectorMap<T> p(in(1).data + row * keys, keys);
      VectorMap<T> ds(out(0).data + row * keys, keys);
      ds = p.array() * (dp.array() - dp.dot(p));
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
  Vector<T> normalised(const MatrixMap<T>& x, const Operand<T>& statistics, std::int64_t t,
                       T& inverse) const {
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
      case Activation::gelu:
        y = x.unaryExpr([](T v) { return v * T(0.5) * (1 + std::erf(v * T(M_SQRT1_2))); });
        return;
      case Activation::squared_relu:
        y = x.unaryExpr([](T v) { return v > 0 ? v * v : T(0); });
        return;
      case Activation::swiglu:
        y = x.leftCols(y.cols())
                .unaryExpr([](T v) { return v * sigmoid(v); })
                .cwiseProduct(x.rightCols(y.cols()));
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
          const double angle =
              position * std::pow(rope_base, -2.0 * static_cast<double>(i) / static_cast<double>(d));
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
  static std::int64_t local_entry(const Operand<T>& ids, std::int64_t t, std::int64_t start,
                                  std::int64_t rows) {
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
    begin_accumulation();
    const MatrixMap<T> dy = matrix(in(0));
    MatrixMap<T> table = weight(out(0));
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
    for (std::int64_t t = 0; t < x.rows(); ++t)
      y.row(t) = x.row(t) + table.row(in(0).at.whole_row(t / batch));
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

  // Elements before, along and behind a dimension.
  static std::array<std::int64_t, 3> around(const Operand<T>& o, std::size_t dimension) {
    std::array<std::int64_t, 3> n{1, o.size(dimension), 1};
    for (std::size_t d = 0; d < o.spec().rank; ++d) {
      if (d != dimension) n[d < dimension ? 0 : 2] *= o.size(d);
    }
    return n;
  }

  void slice() {
    const std::size_t d = attributes_.dimension;
    const auto [before, parts, behind] = around(out(0), d);
    const std::int64_t all = in(0).size(d);
    const std::int64_t first = (out(0).at.start[d] - in(0).at.start[d]) * behind;
    for (std::int64_t i = 0; i < before; ++i) {
      std::copy_n(in(0).data + i * all * behind + first, parts * behind, out(0).data + i * parts * behind);
    }
  }

  void concat() {
    const std::size_t d = attributes_.dimension;
    const std::int64_t all = out(0).size(d);
    std::int64_t at = 0;
    for (const Operand<T>& part : call_.reads) {
      const auto [before, size, behind] = around(part, d);
      for (std::int64_t i = 0; i < before; ++i) {
        std::copy_n(part.data + i * size * behind, size * behind, out(0).data + (i * all + at) * behind);
      }
      at += size;
    }
  }

  void copy() { vector(out(0)) = vector(in(0)); }

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
      const bool replicated =
          (summed & axis) != 0 && (gradient.spec().dimensions[0].sharded_over & axis) == 0;
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

  const KernelCall<T>& call_;
  const OpAttributes& attributes_;
};

}  // namespace

template <class T>
void run_kernel(const KernelCall<T>& call) {
  Kernel<T>(call).run();
}

template void run_kernel(const KernelCall<float>&);
template void run_kernel(const KernelCall<double>&);

}  // namespace meshweave
