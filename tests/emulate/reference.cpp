// The reference's gradients against finite differences of its own loss.
#include "sim/emulate/reference.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace meshweave;

namespace {

ReferenceSettings tiny() {
  ReferenceSettings s;
  s.shape.hidden = 8;
  s.shape.layers = 2;
  s.shape.heads = s.shape.kv_heads = 2;
  s.shape.head_dim = 4;
  s.shape.ffn = 12;
  s.shape.vocabulary = 11;
  s.shape.sequence = s.shape.max_positions = 5;
  s.vocabulary_rows = 12;
  s.samples = 2;
  return s;
}

// Central differences have an error of O(δ²) = 1e-10 of the third derivative, and one of 1e-16/δ = 1e-11 by
// rounding.
constexpr double delta = 1e-5;
constexpr double tolerance = 1e-7;

// Largest difference of a gradient element and the central difference of the loss, over all elements of all
// parameters.
double worst_difference(const ReferenceSettings& settings) {
  Reference with_gradients(settings);
  with_gradients.step();
  Reference probe(settings);
  double worst = 0;
  for (auto& [key, value] : probe.parameters()) {
    for (std::int64_t i = 0; i < value.size(); ++i) {
      const double before = value.data()[i];
      value.data()[i] = before + delta;
      const double above = probe.loss();
      value.data()[i] = before - delta;
      const double below = probe.loss();
      value.data()[i] = before;
      worst = std::max(worst, std::abs((above - below) / (2 * delta) - with_gradients.gradients().at(key).data()[i]));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("The reference's gradients are those of its loss") {
  ReferenceSettings s = tiny();
  CHECK(worst_difference(s) < tolerance);
  s.shape.activation = Activation::swiglu;
  s.shape.norm = Norm::rms_norm;
  s.shape.biases = Biases::none;
  s.shape.position = Position::rope;
  s.shape.kv_heads = 1;
  s.shape.tied_embeddings = false;
  CHECK(worst_difference(s) < tolerance);
  s.shape.activation = Activation::squared_relu;
  s.shape.biases = Biases::qkv;
  s.shape.mask = AttentionMask::full;
  s.shape.position = Position::none;
  CHECK(worst_difference(s) < tolerance);
  s.shape.dropout = 0.3;
  CHECK(worst_difference(s) < tolerance);
}

TEST_CASE("Clipping scales the gradients to the limit") {
  ReferenceSettings s = tiny();
  Reference free(s);
  free.step();
  s.clip = free.gradient_norm() / 2;
  Reference clipped(s);
  clipped.step();
  double squares = 0;
  for (const auto& [key, gradient] : clipped.gradients()) squares += gradient.squaredNorm();
  CHECK(std::sqrt(squares) == Approx(s.clip).epsilon(1e-12));
  CHECK(clipped.gradient_norm() == free.gradient_norm());
}

TEST_CASE("Adam's first step is the rate times the sign of the gradient") {
  // m/(1 − β1) = g and v/(1 − β2) = g²: the step is g/(|g| + ε).
  const ReferenceSettings s = tiny();
  Reference r(s);
  const ParameterKey key{0, "fc1.weight"};
  const RowMatrix before = r.parameters().at(key);
  r.step();
  const RowMatrix& g = r.gradients().at(key);
  for (std::int64_t i = 0; i < g.size(); ++i) {
    const double expected = -s.adam.learning_rate * g.data()[i] / (std::abs(g.data()[i]) + s.adam.epsilon);
    CHECK(r.parameters().at(key).data()[i] - before.data()[i] == Approx(expected).epsilon(1e-9).margin(1e-15));
  }
}
