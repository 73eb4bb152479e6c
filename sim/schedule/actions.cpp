#include "sim/schedule/actions.h"

namespace meshweave {

bool ActionList::exists(const PipelineTransfer& transfer) const {
  if (transfer.micro_batch < 0) return false;
  const int stage = shape_.placement.stage(pp_, transfer.chunk);
  // The first virtual stage receives no input and sends no gradient; the last one is its mirror image.
  const bool at_input = transfer.send == transfer.backward;
  return at_input ? stage > 0 : stage + 1 < shape_.placement.stages();
}

void ActionList::weight(int chunk, int micro_batch) {
  if (shape_.defer_weight_gradients) add(ActionKind::weight, chunk, micro_batch);
}

void ActionList::exchange(std::initializer_list<PipelineTransfer> transfers) {
  Action action{shape_.module, ActionKind::exchange, 0, 0, {}};
  for (const PipelineTransfer& transfer : transfers) {
    if (exists(transfer)) action.transfers.push_back(transfer);
  }
  if (!action.transfers.empty()) actions_.push_back(std::move(action));
}

std::vector<Action> make_schedule(ScheduleKind kind, const PipelineShape& shape, int pp) {
  switch (kind) {
    case ScheduleKind::gpipe: return gpipe(shape, pp);
    case ScheduleKind::one_f_one_b: return one_f_one_b(shape, pp);
  }
  return {};
}

}  // namespace meshweave
