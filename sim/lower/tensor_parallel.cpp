#include "sim/lower/tensor_parallel.h"

namespace meshweave {

Value enter_tensor_parallel(BlockRecorder& recorder, Value x, const std::string& label) {
  const ModuleContext& c = recorder.context();
  if (!c.sequence_parallel()) return x;
  BlockValue gathered;
  gathered.spec = recorder.block().spec(x);
  gathered.spec.name += " gathered";
  gathered.spec.dimensions[0] = c.tokens()[0];
  gathered.category = Category::communication;
  gathered.re_emit = ReEmit::always;
  const Value y = recorder.add(std::move(gathered));
  recorder.tensor_op(OpKind::all_gather, label + " all-gather", x, y);
  return y;
}

Value leave_tensor_parallel(BlockRecorder& recorder, Value y, const std::string& name, const std::string& label) {
  const ModuleContext& c = recorder.context();
  if (!c.sequence_parallel()) return all_reduce_tensor(recorder, y, ReduceOp::sum, name, label);
  BlockValue scattered;
  scattered.spec = recorder.block().spec(y);
  scattered.spec.name = name;
  scattered.spec.partial = 0;
  scattered.spec.dimensions[0] = c.local_tokens()[0];
  scattered.category = Category::communication;
  const Value out = recorder.add(std::move(scattered));
  recorder.tensor_op(OpKind::reduce_scatter, label + " reduce-scatter", y, out);
  return out;
}

Value all_reduce_tensor(BlockRecorder& recorder, Value x, ReduceOp reduce, const std::string& name,
                        const std::string& label) {
  const ModuleContext& c = recorder.context();
  if (c.tp() == 1) return x;
  BlockValue reduced = recorder.block().values[x];
  reduced.spec.name = name;
  reduced.spec.partial = 0;
  reduced.alias = x;
  const Value out = recorder.add(std::move(reduced));
  OpAttributes attributes;
  attributes.reduce = reduce;
  recorder.tensor_op(OpKind::all_reduce, label + " all-reduce", x, out, attributes);
  return out;
}

}  // namespace meshweave
