#include "sim/lower/context_parallel.h"

#include "sim/lower/layer_parts.h"
#include "sim/lower/ring_attention.h"

namespace meshweave {

namespace {

// Sequence shards to head shards over the Ulysses ranks, or back.
std::vector<Value> exchange(BlockRecorder& r, const std::string& label, const std::vector<Value>& values,
                            bool to_heads) {
  const ModuleContext& c = r.context();
  const int ranks = c.plan->grid.degree(Axis::ulysses);
  const AxisMask axis = mask_of(Axis::ulysses);
  std::vector<Value> exchanged;
  for (const Value v : values) {
    BlockValue value;
    value.spec = r.block().spec(v);
    value.spec.name += to_heads ? " by heads" : " by tokens";
    value.category = Category::communication;
    Dimension& split = value.spec.dimensions[to_heads ? 2 : 0];
    Dimension& joined = value.spec.dimensions[to_heads ? 0 : 2];
    split.size /= ranks;
    split.sharded_over = static_cast<AxisMask>(split.sharded_over | axis);
    joined.size *= ranks;
    joined.sharded_over = static_cast<AxisMask>(joined.sharded_over & ~axis);
    exchanged.push_back(r.add(std::move(value)));
  }
  OpAttributes attributes;
  attributes.dimension = to_heads ? 2 : 0;
  attributes.joined = to_heads ? 0 : 2;
  r.collective(OpKind::all_to_all, label, c.context_stream, c.ulysses_group, values, exchanged, attributes);
  return exchanged;
}

Value plain_attention(BlockRecorder& r, Value q, Value k, Value v) {
  return r.context().shape().fused_attention ? fused_attention(r, q, k, v, visible_of_sequence(r.context()))
                                             : unfused_attention(r, q, k, v);
}

Value attention_over_ring(BlockRecorder& r, Value q, Value k, Value v) {
  const ModuleContext& c = r.context();
  if (c.ring() == 1) return plain_attention(r, q, k, v);
  if (c.layout().cp.kind != ContextKind::all_gather) return ring_attention(r, q, k, v);
  const ReEmit again = c.layout().keep == Keep::keys_values ? ReEmit::kept
                       : c.layout().cp.regather             ? ReEmit::always
                                                            : ReEmit::never;
  const KeysValues all =
      in_sequence_order(r, "keys, values", gather_in_rank_order(r, "keys, values", k, v, again), again);
  return plain_attention(r, q, all.k, all.v);
}

}  // namespace

Value attention_over_shards(BlockRecorder& r, Value q, Value k, Value v) {
  const ModuleContext& c = r.context();
  if (c.layout().cp.degree == 1 && c.layout().keep == Keep::keys_values)
    r.block().values[k].re_emit = r.block().values[v].re_emit = ReEmit::kept;
  if (c.layout().cp.ulysses == 1) return attention_over_ring(r, q, k, v);
  const std::vector<Value> heads = exchange(r, "heads all-to-all", {q, k, v}, true);
  const Value context = attention_over_ring(r, heads[0], heads[1], heads[2]);
  return exchange(r, "context all-to-all", {context}, false)[0];
}

KeysValues gather_in_rank_order(BlockRecorder& r, const std::string& label, Value k, Value v, ReEmit again) {
  const ModuleContext& c = r.context();
  std::vector<Value> gathered;
  for (const Value own : {k, v}) {
    BlockValue value;
    value.spec = r.block().spec(own);
    value.spec.name += " gathered";
    value.spec.dimensions[0] = c.gathered_sequence(true);
    value.category = Category::communication;
    value.re_emit = again;
    gathered.push_back(r.add(std::move(value)));
  }
  r.collective(OpKind::all_gather, label + " all-gather", c.context_stream, c.sequence_group, {k, v}, gathered);
  return {gathered[0], gathered[1]};
}

KeysValues in_sequence_order(BlockRecorder& r, const std::string& label, const KeysValues& gathered, ReEmit again) {
  const ModuleContext& c = r.context();
  if (c.partition() == Partition::contiguous) return gathered;
  KeysValues ordered;
  const std::pair<Value, Value*> both[] = {{gathered.k, &ordered.k}, {gathered.v, &ordered.v}};
  for (const auto& [from, to] : both) {
    BlockValue value = r.block().values[from];
    value.spec.name += " in order";
    value.spec.dimensions[0] = c.gathered_sequence(false);
    value.re_emit = again;
    *to = r.add(std::move(value));
    r.op(OpKind::reorder, label + " in order", {from}, {*to});
  }
  return ordered;
}

double visible_of_sequence(const ModuleContext& c) {
  if (c.sequence_index < 0) return -1;
  return (c.sequence_index + 0.5) / c.ring();
}

double visible_of_part(const ModuleContext& c, int hops) {
  if (c.sequence_index < 0) return -1;
  const int owner = (c.sequence_index - hops + c.ring()) % c.ring();
  return owner == c.sequence_index ? 0.5 : owner < c.sequence_index ? 1 : 0;
}

}  // namespace meshweave
