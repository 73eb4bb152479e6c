// The rules for the operands of collectives: what a group's size and axes do to shapes and partial sums.
#include <fmt/format.h>

#include "sim/base/error.h"
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
  // Several operands are as many collectives in one call.
  void check() {
    for (operand_ = 0; operand_ < writes(); ++operand_) check_one();
    if (!spec().attributes.accumulates) return;
    for (std::size_t i = 0; i < writes(); ++i) {
      expect(spec().reads[writes() + i] == spec().writes[i],
             [&] { return fmt::format("writes {} but accumulates {}", out(i).name, in(writes() + i).name); });
    }
  }

  void check_one() {
    switch (spec().kind) {
      case OpKind::all_reduce:
      case OpKind::reduce: return reduction();
      case OpKind::all_gather: return all_gather();
      case OpKind::reduce_scatter: return reduce_scatter();
      case OpKind::broadcast: return broadcast();
      case OpKind::all_to_all: return all_to_all();
      default: bug("no rule for the operands of " + std::string(name_of(spec().kind)));
    }
  }

  const TensorSpec& own() const { return in(operand_); }
  const TensorSpec& result() const { return out(operand_); }

  void reduction() {
    // A gradient that visitors made goes to its owner.
    if (spec().kind == OpKind::reduce) {
      expect_same_part(own(), result());
    } else {
      expect_same_shape(own(), result());
    }
    expect_summed();
  }

  void all_gather() {
    expect_whole(own());
    expect_partial(result(), 0);
    expect_type(result(), own().dtype);
    expect_parts(own(), result());
  }

  void reduce_scatter() {
    expect_parts(result(), own());
    expect_summed();
  }

  void broadcast() {
    expect_whole(own());
    expect_partial(result(), 0);
    expect_same_part(own(), result());
    expect_type(result(), own().dtype);
  }

  // The same shape, but that one side may be a visitor.
  void expect_same_part(const TensorSpec& a, const TensorSpec& b) {
    bool same = a.rank == b.rank;
    for (std::size_t i = 0; same && i < a.rank; ++i) same = size(a, i) == size(b, i) && sharded(a, i) == sharded(b, i);
    expect_fit(same, a, b);
  }

  // Every member brings its part along `joined` whole along `dimension`, and takes the other way round.
  void all_to_all() {
    const std::size_t split = spec().attributes.dimension;
    const std::size_t joined_along = spec().attributes.joined;
    expect_whole(own());
    expect_partial(result(), 0);
    expect_type(result(), own().dtype);
    expect_fit(own().elements() == result().elements(), own(), result());
    if (split == joined_along) return;
    const auto changes = [&](const TensorSpec& whole, const TensorSpec& part, std::size_t d) {
      return size(part, d) * members() == size(whole, d) &&
             sharded(part, d) == joined(sharded(whole, d), summed_axes());
    };
    expect_fit(own().rank == result().rank && changes(own(), result(), split) && changes(result(), own(), joined_along),
               own(), result());
  }

  // A sum is taken over axes that the operand is partial over, and removes those that the group covers whole;
  // of an axis that it covers in part (optimizer instances, first and last stage) the lowering says when the
  // sum is whole.
  void expect_summed() {
    const TensorSpec& x = own();
    const TensorSpec& y = result();
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
    // Pipeline ranks that share a table contribute different parts to the gradient that is added to.
    const AxisMask pipeline = spec().attributes.accumulates ? mask_of(Axis::pp) : AxisMask{0};
    const AxisMask open = joined(without(summed_axes(), covered_axes()), without(pipeline, x.partial));
    const AxisMask left = joined(without(x.partial, covered_axes()), without(pipeline, x.partial));
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

  std::size_t operand_ = 0;

  const Group& group() const { return program().groups[spec().group]; }

  std::int64_t members() const {
    std::int64_t n = 1;
    for (const AxisPattern& p : group().patterns) n *= p.count;
    return n;
  }

  // The axes along which the group has several members.
  AxisMask summed_axes() const {
    AxisMask axes = 0;
    for (const AxisPattern& p : group().patterns) axes = joined(axes, p.count > 1 ? mask_of(p.axis) : AxisMask{0});
    return axes;
  }

  // Those that it covers whole.
  AxisMask covered_axes() const {
    AxisMask axes = 0;
    for (const AxisPattern& p : group().patterns) {
      if (p.count == program().grids[group().grid].degree(p.axis)) axes = joined(axes, mask_of(p.axis));
    }
    return static_cast<AxisMask>(axes & summed_axes());
  }
};

}  // namespace

std::string collective_fault(const Program& program, const OpSpec& spec) {
  return CollectiveOperands(program, spec).fault();
}

}  // namespace meshweave
