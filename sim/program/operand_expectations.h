// What the rules of all op kinds are made of: the operands of one op spec, and expectations of them.
//
// The first expectation that fails is kept as the fault: later ones may follow from it. A fault is said of
// the operands by name and shape: "x[8,2/dp,6] does not fit w[10/tp,7]", where /tp marks a dimension sharded
// over tp.
#pragma once

#include <string>

#include "sim/program/program.h"

namespace meshweave {

class OperandExpectations {
 public:
  OperandExpectations(const Program& program, const OpSpec& spec) : program_(program), spec_(spec) {}

 protected:
  const Program& program() const { return program_; }
  const OpSpec& spec() const { return spec_; }
  std::size_t reads() const { return spec_.reads.size(); }
  std::size_t writes() const { return spec_.writes.size(); }
  const TensorSpec& in(std::size_t i) const { return program_.tensor_specs[spec_.reads[i]]; }
  const TensorSpec& out(std::size_t i) const { return program_.tensor_specs[spec_.writes[i]]; }

  // `text` is a function: it is called only for the first fault.
  template <typename Text>
  void expect(bool condition, Text text) {
    if (!condition && fault_.empty()) fault_ = std::string(text());
  }
  void expect_whole(const TensorSpec& t);                   // read, and no partial sum
  void expect_all_whole();                                  // all that is read and written
  void expect_partial(const TensorSpec& t, AxisMask axes);  // a partial sum over exactly these axes
  void expect_type(const TensorSpec& t, DType dtype);
  void expect_same_shape(const TensorSpec& a, const TensorSpec& b);
  void expect_same_but(const TensorSpec& a, const TensorSpec& b,
                       std::size_t changed);  // in all other dimensions
  void expect_fit(bool condition, const TensorSpec& a, const TensorSpec& b);

  bool fits() const { return fault_.empty(); }
  std::string take_fault() { return std::move(fault_); }

 private:
  const Program& program_;
  const OpSpec& spec_;
  std::string fault_;
};

inline AxisMask sharded(const TensorSpec& t, std::size_t dimension) { return t.dimensions[dimension].sharded_over; }
inline std::int64_t size(const TensorSpec& t, std::size_t dimension) { return t.dimensions[dimension].size; }
inline AxisMask joined(AxisMask a, AxisMask b) { return static_cast<AxisMask>(a | b); }
inline AxisMask without(AxisMask a, AxisMask b) { return static_cast<AxisMask>(a & ~b); }
// "x[8,2/dp,6]"
std::string shape(const TensorSpec& t);

// What is wrong with the operands of a kernel, or of a collective; empty when nothing is. Their number is
// right.
std::string kernel_fault(const Program& program, const OpSpec& spec);
std::string collective_fault(const Program& program, const OpSpec& spec);

}  // namespace meshweave
