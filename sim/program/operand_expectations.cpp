#include "sim/program/operand_expectations.h"

#include <fmt/format.h>

namespace meshweave {

std::string shape(const TensorSpec& t) {
  std::string out = t.name + "[";
  for (std::size_t i = 0; i < t.rank; ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : ",", size(t, i));
    if (sharded(t, i) != 0) out += "/" + names_of(sharded(t, i));
  }
  return out + "]";
}

void OperandExpectations::expect_whole(const TensorSpec& t) {
  expect(t.partial == 0, [&] { return fmt::format("reads {}, still partial over {}", t.name, names_of(t.partial)); });
}

void OperandExpectations::expect_all_whole() {
  for (std::size_t i = 0; i < reads(); ++i) expect_whole(in(i));
  for (std::size_t i = 0; i < writes(); ++i) expect_partial(out(i), 0);
}

void OperandExpectations::expect_partial(const TensorSpec& t, AxisMask axes) {
  expect(t.partial == axes, [&] {
    return fmt::format("{} is marked partial over {} (its sum is over {})", t.name, names_of(t.partial),
                       names_of(axes));
  });
}

void OperandExpectations::expect_type(const TensorSpec& t, DType dtype) {
  expect(t.dtype == dtype,
         [&] { return fmt::format("{} is {} (must be {})", t.name, name_of(t.dtype), name_of(dtype)); });
}

void OperandExpectations::expect_same_shape(const TensorSpec& a, const TensorSpec& b) {
  expect(a.rank == b.rank && a.dimensions == b.dimensions,
         [&] { return fmt::format("{} does not fit {}", shape(a), shape(b)); });
}

void OperandExpectations::expect_same_but(const TensorSpec& a, const TensorSpec& b, std::size_t changed) {
  bool fits = a.rank == b.rank && changed < a.rank;
  for (std::size_t i = 0; fits && i < a.rank; ++i) fits = i == changed || a.dimensions[i] == b.dimensions[i];
  expect_fit(fits, a, b);
}

void OperandExpectations::expect_fit(bool condition, const TensorSpec& a, const TensorSpec& b) {
  expect(condition, [&] { return fmt::format("{} does not fit {}", shape(a), shape(b)); });
}

}  // namespace meshweave
