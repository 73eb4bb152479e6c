// What the schedules share: appending actions and exchanges, leaving out the transfers that do not exist at the
// ends of the pipeline.
#pragma once

#include "sim/schedule/schedule.h"

namespace meshweave {

class ActionList {
 public:
  ActionList(const PipelineShape& shape, int pp) : shape_(shape), pp_(pp) {}

  void forward(int chunk, int micro_batch) { add(ActionKind::forward, chunk, micro_batch); }
  void backward(int chunk, int micro_batch) { add(ActionKind::backward, chunk, micro_batch); }
  // Nothing unless weight gradients are deferred.
  void weight(int chunk, int micro_batch);
  // Posts the transfers that exist; no exchange at all when none does.
  void exchange(std::initializer_list<PipelineTransfer> transfers);

  static PipelineTransfer send_forward(int chunk, int mb) { return {true, false, chunk, mb}; }
  static PipelineTransfer receive_forward(int chunk, int mb) { return {false, false, chunk, mb}; }
  static PipelineTransfer send_backward(int chunk, int mb) { return {true, true, chunk, mb}; }
  static PipelineTransfer receive_backward(int chunk, int mb) { return {false, true, chunk, mb}; }
  // Stands for "no transfer" in exchange().
  static PipelineTransfer nothing() { return {false, false, -1, -1}; }

  std::vector<Action> take() { return std::move(actions_); }

 private:
  void add(ActionKind kind, int chunk, int micro_batch) {
    actions_.push_back({shape_.module, kind, chunk, micro_batch, {}});
  }
  bool exists(const PipelineTransfer& transfer) const;

  PipelineShape shape_;
  int pp_;
  std::vector<Action> actions_;
};

}  // namespace meshweave
