// What kernels share: the operands of a call as Eigen maps, and the place of an element in the synthetic batch.
#pragma once

#include <Eigen/Core>

#include "sim/execute/kernels.h"
#include "sim/execute/synthetic.h"

namespace meshweave {

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
class KernelBase {
 public:
  explicit KernelBase(const KernelCall<T>& call) : call_(call), attributes_(call.spec->attributes) {}

 protected:
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

  // A number of samples that no index reaches, so that elements of different samples have different indices.
  static std::int64_t samples(const Operand<T>&) { return std::int64_t{1} << 20; }

  T kept(std::uint64_t key, std::int64_t index) const {
    const double p = attributes_.dropout;
    return dropout_keeps(call_.seed, key, call_.step, index, p) ? static_cast<T>(1 / (1 - p)) : T(0);
  }

  const KernelCall<T>& call_;
  const OpAttributes& attributes_;
};

// Attention and its parts: OpKind::attention to OpKind::softmax_backward (kernels_attention.cpp).
template <class T>
void run_attention_kernel(const KernelCall<T>& call);

}  // namespace meshweave
