#include "sim/schedule/actions.h"

namespace meshweave {

std::vector<Action> gpipe(const PipelineShape& shape, int pp) {
  ActionList list(shape, pp);
  for (int i = 0; i < shape.micro_batches; ++i) {
    list.exchange({ActionList::receive_forward(0, i)});
    list.forward(0, i);
    list.exchange({ActionList::send_forward(0, i)});
  }
  if (shape.forward_only) return list.take();
  for (int i = 0; i < shape.micro_batches; ++i) {
    list.exchange({ActionList::receive_backward(0, i)});
    list.backward(0, i);
    list.exchange({ActionList::send_backward(0, i)});
    list.weight(0, i);
  }
  return list.take();
}

}  // namespace meshweave
