// The reference: the same transformer trained on one device by a plain implementation, sample by sample, in
// double. It is written from the equations and knows nothing of layouts, micro-batches or programs; the
// emulator is judged by it.
//
//   layer   a = x + drop(W_o·attention(rope(W_qkv·norm1(x) + b)) + b)        y = a + drop(W_2·φ(W_1·norm2(a)
//   + b) + b) loss    mean over all tokens of −log softmax(E·norm(x))[next token] step    g ← ∂loss/∂θ,
//   scaled to norm `clip` where it is larger; Adam
//
// It shares with the executors the synthetic model and data (sim/execute/synthetic.h), which are pure
// functions.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "models/transformer.h"
#include "sim/scenario/scenario.h"

namespace meshweave {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct ReferenceSettings {
  TransformerShape shape;
  std::int64_t vocabulary_rows = 0;  // of the embedding tables, padding included
  std::int64_t samples = 0;          // global batch
  int module = 0;                    // index in the graph
  bool train = true;
  double clip = 0;  // 0: none
  AdamSettings adam;
  std::uint64_t seed = 1;
};

// A parameter by layer (−1 outside layers) and name, "qkv.weight". Vectors are matrices of one row.
using ParameterKey = std::pair<int, std::string>;
using ParameterMap = std::map<ParameterKey, RowMatrix>;

// Told every value of a sample that the step makes: activations under the names of the program's tensors
// ("q", "norm1", "d(hidden)") as [tokens, features], contributions to a gradient as "grad(NAME) by USE",
// where USE is the product or kernel that makes it.
using ReferenceRecorder =
    std::function<void(int layer, const std::string& name, std::int64_t sample, const RowMatrix& value)>;

class Reference {
 public:
  explicit Reference(const ReferenceSettings& settings);

  // Runs a training step (or a forward pass) and returns the loss before it.
  double step(const ReferenceRecorder& record = {});
  // The loss of step `steps()` with the parameters as they are.
  double loss();

  int steps() const { return step_; }
  ParameterMap& parameters() { return parameters_; }
  const ParameterMap& parameters() const { return parameters_; }
  const ParameterMap& gradients() const { return gradients_; }  // of the last step, behind the clip
  double gradient_norm() const { return norm_; }                // before the clip
  // √(v̂) + ε of the last step, by which Adam divides.
  RowMatrix adam_divisor(const ParameterKey& key) const;

 private:
  class Sample;

  RowMatrix& parameter(int layer, const std::string& name) { return parameters_.at({layer, name}); }
  void add(int layer, const std::string& name, std::int64_t rows, std::int64_t columns);
  double run_samples(bool backward, const ReferenceRecorder& record);
  void update();

  ReferenceSettings settings_;
  ParameterMap parameters_, gradients_, first_moments_, second_moments_;
  double norm_ = 0;
  int step_ = 0;
};

}  // namespace meshweave
