#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/error.h"
#include "sim/execute/kernel_base.h"

namespace meshweave {

namespace {

template <class T>
class AttentionKernel : KernelBase<T> {
 public:
  using KernelBase<T>::KernelBase;

  void run() {
    switch (call_.spec->kind) {
      case OpKind::attention: return attention();
      case OpKind::attention_backward: return attention_backward();
      case OpKind::attention_merge: return attention_merge();
      case OpKind::batched_matmul: return batched_matmul();
      case OpKind::softmax: return softmax();
      case OpKind::softmax_backward: return softmax_backward();
      default: bug("no kernel of attention");
    }
  }

 private:
  using Base = KernelBase<T>;
  using Base::attributes_, Base::call_, Base::in, Base::kept, Base::out, Base::sample, Base::samples, Base::vector,
      Base::writes;

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
  Matrix<T> attention_dropout(const Operand<T>& q, const Operand<T>& k, std::int64_t b, std::int64_t h) const {
    Matrix<T> keep(q.size(0), k.size(0));
    const std::uint64_t key = synthetic_key(call_.spec->label + " dropout", call_.spec->module, call_.layer);
    for (std::int64_t i = 0; i < keep.rows(); ++i) {
      const std::int64_t row = (q.at.whole_row(i) * samples(q) + sample(q, b)) * q.at.whole[2] + q.at.start[2] + h;
      for (std::int64_t j = 0; j < keep.cols(); ++j) {
        keep(i, j) = kept(key, row * k.at.whole[0] + k.at.whole_row(j));
      }
    }
    return keep;
  }

  void attention() {
    const Operand<T>& q = in(0);
    const Operand<T>& k = in(1);
    const Operand<T>& v = in(2);
    each_head(q, k, [&](std::int64_t b, std::int64_t h, std::int64_t g) {
      Matrix<T> s = masked_scores(q, k, b, h, g);
      for (std::int64_t i = 0; i < s.rows(); ++i) {
        const T largest = s.row(i).maxCoeff();
        const bool blind = std::isinf(largest);  // sees none of these keys
        s.row(i) = (s.row(i).array() - (blind ? T(0) : largest)).exp();
        const T sum = s.row(i).sum();
        if (!blind) s.row(i) /= sum;
        if (writes() > 1) out(1).data[(i * q.size(1) + b) * q.size(2) + h] = largest + std::log(sum);
      }
      if (attributes_.dropout > 0) s.array() *= attention_dropout(q, k, b, h).array();
      head_of(out(0), b, h).noalias() = s * head_of(v, b, g);
    });
  }

  // o = Σ oᵢ·exp(lseᵢ − lse), lse = log Σ exp(lseᵢ): what one softmax over all keys gives.
  void attention_merge() {
    const std::int64_t d = in(0).size(3);
    for (std::int64_t row = 0; row < in(1).elements(); ++row) {
      const T a = in(1).data[row], b = in(3).data[row];
      const T largest = std::max(a, b);
      const T weight_a = std::isinf(a) ? T(0) : std::exp(a - largest);
      const T weight_b = std::isinf(b) ? T(0) : std::exp(b - largest);
      const T sum = weight_a + weight_b;
      const VectorMap<T> x(in(0).data + row * d, d), y(in(2).data + row * d, d);
      VectorMap<T>(out(0).data + row * d, d) = (weight_a / sum) * x + (weight_b / sum) * y;
      if (writes() > 1) out(1).data[row] = largest + std::log(sum);
    }
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
  static StridedMap<T> pairs_of(const Operand<T>& o, std::int64_t b, std::int64_t h) { return head_of(o, b, h); }

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
};

}  // namespace

template <class T>
void run_attention_kernel(const KernelCall<T>& call) {
  AttentionKernel<T>(call).run();
}

template void run_attention_kernel(const KernelCall<float>&);
template void run_attention_kernel(const KernelCall<double>&);

}  // namespace meshweave
