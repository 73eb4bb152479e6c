// The rules for the operands of collectives: what a group's size and axes do to shapes and partial sums.
#include <fmt/format.h>

#include "sim/program/operand_expectations.h"

namespace meshweave {
namespace {

class CollectiveOperands : public OperandExpectations {
 public:
  using OperandExpectations::OperandExpectations;

  std::string fault() {
    check();
    return take_fault();
  }

 private:
  void check() {
    switch (spec().kind) {
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
      default:
        return;
    }
  }

  void reduction() {
    expect_same_shape(in(0), out(0));
    expect_summed();
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

  // A sum is taken over axes that the operand is partial over, and removes those that the group covers whole;
  // of an axis that it covers in part (optimizer instances, first and last stage) the lowering says when the
  // sum is whole.
  void expect_summed() {
    const TensorSpec& x = in(0);
    const TensorSpec& y = out(0);
    expect_type(y, x.dtype);
    if (spec().attributes.reduce == ReduceOp::max) {
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

  // `whole` has the group's parts `part` side by side along `dimension`.
  void expect_parts(const TensorSpec& part, const TensorSpec& whole) {
    const std::size_t d = spec().attributes.dimension;
    expect_same_but(part, whole, d);
    expect_fit(fits() && size(part, d) * members() == size(whole, d) &&
                   sharded(part, d) == joined(sharded(whole, d), summed_axes()) &&
                   (sharded(whole, d) & covered_axes()) == 0,
               part, whole);
  }

  const Group& group() const { return program().groups[spec().group]; }

  std::int64_t members() const {
    std::int64_t n = 1;
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
      if (p.count == program().grids[group().module].degree(p.axis)) axes = joined(axes, mask_of(p.axis));
    }
    return static_cast<AxisMask>(axes & summed_axes());
  }
};

}  // namespace

std::string collective_fault(const Program& program, const OpSpec& spec) {
  return CollectiveOperands(program, spec).fault();
}

}  // namespace meshweave
