#include <algorithm>

#include "sim/schedule/actions.h"

namespace meshweave {

namespace {

std::vector<Action> plain(const PipelineShape& shape, int pp) {
  ActionList list(shape, pp);
  const int total = shape.micro_batches;
  const int warm_up = shape.forward_only ? total : std::min(shape.ranks() - pp - 1, total);
  for (int i = 0; i < warm_up; ++i) {
    list.exchange({ActionList::receive_forward(0, i)});
    list.forward(0, i);
    list.exchange({ActionList::send_forward(0, i)});
  }
  if (shape.forward_only) return list.take();
  if (warm_up < total) list.exchange({ActionList::receive_forward(0, warm_up)});
  for (int i = 0; i + warm_up < total; ++i) {
    const int f = i + warm_up;
    list.forward(0, f);
    list.exchange({ActionList::send_forward(0, f), ActionList::receive_backward(0, i)});
    list.backward(0, i);
    list.exchange({ActionList::send_backward(0, i),
                   f + 1 < total ? ActionList::receive_forward(0, f + 1) : ActionList::nothing()});
    list.weight(0, i);
  }
  for (int i = total - warm_up; i < total; ++i) {
    list.exchange({ActionList::receive_backward(0, i)});
    list.backward(0, i);
    list.exchange({ActionList::send_backward(0, i)});
    list.weight(0, i);
  }
  return list.take();
}

// Interleaved: rank p runs chunk c as virtual stage c·P + p. Forwards go through the chunks in groups of P
// micro-batches; backwards the same with the chunks reversed. Warm-up is 2(P − p − 1) + (v − 1)P.
class Interleaved {
 public:
  Interleaved(const PipelineShape& shape, int pp) : shape_(shape), pp_(pp), list_(shape, pp) {}

  std::vector<Action> run() {
    const int total = shape_.micro_batches * shape_.chunks();
    const int warm_up = shape_.forward_only
                            ? total
                            : std::min(2 * (shape_.ranks() - pp_ - 1) + (shape_.chunks() - 1) * shape_.ranks(), total);
    list_.exchange({receive_forward(0, total)});
    for (int k = 0; k < warm_up; ++k) forward(k, total);
    if (shape_.forward_only) return list_.take();
    if (warm_up < total) list_.exchange({receive_backward(0, total)});
    for (int k = 0; k + warm_up < total; ++k) {
      forward(k + warm_up, total);
      backward(k, total);
    }
    for (int k = total - warm_up; k < total; ++k) {
      if (k == 0) list_.exchange({receive_backward(0, total)});
      backward(k, total);
    }
    return list_.take();
  }

 private:
  int micro_batch(int k) const { return k / (shape_.ranks() * shape_.chunks()) * shape_.ranks() + k % shape_.ranks(); }
  int forward_chunk(int k) const { return k % (shape_.ranks() * shape_.chunks()) / shape_.ranks(); }
  int backward_chunk(int k) const { return shape_.chunks() - 1 - forward_chunk(k); }
  PipelineTransfer receive_forward(int k, int total) const {
    return k < total ? ActionList::receive_forward(forward_chunk(k), micro_batch(k)) : ActionList::nothing();
  }
  PipelineTransfer receive_backward(int k, int total) const {
    return k < total ? ActionList::receive_backward(backward_chunk(k), micro_batch(k)) : ActionList::nothing();
  }
  void forward(int k, int total) {
    list_.forward(forward_chunk(k), micro_batch(k));
    list_.exchange({ActionList::send_forward(forward_chunk(k), micro_batch(k)), receive_forward(k + 1, total)});
  }
  void backward(int k, int total) {
    list_.backward(backward_chunk(k), micro_batch(k));
    list_.exchange({ActionList::send_backward(backward_chunk(k), micro_batch(k)), receive_backward(k + 1, total)});
    list_.weight(backward_chunk(k), micro_batch(k));
  }

  PipelineShape shape_;
  int pp_;
  ActionList list_;
};

}  // namespace

std::vector<Action> one_f_one_b(const PipelineShape& shape, int pp) {
  return shape.chunks() == 1 ? plain(shape, pp) : Interleaved(shape, pp).run();
}

}  // namespace meshweave
