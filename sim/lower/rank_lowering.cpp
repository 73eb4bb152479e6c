#include "sim/lower/rank_lowering.h"

#include <deque>

#include "sim/schedule/schedule.h"

namespace meshweave {

namespace {

class RankLowering {
 public:
  RankLowering(ProgramBuilder& builder, Body& body, const std::vector<PartInput>& inputs)
      : builder_(builder), body_(body) {
    for (const PartInput& input : inputs)
      parts_.emplace_back(*input.context, builder, body, *input.blocks, input.key.pp);
    ensure(parts_.size() == 1, "a rank holds a part of one module");
    pp_ = inputs.front().key.pp;
  }

  void run(const InterruptFlag* interrupt) {
    for (StageLowering& part : parts_) part.begin_step();
    const ModuleContext& context = parts_.front().context();
    const Scenario& scenario = *context.scenario;
    const PipelineShape shape{context.plan->module, context.plan->placement, context.plan->micro_batches,
                              scenario.pass == Pass::forward, scenario.schedule.defer_weight_gradients};
    for (const Action& action : make_schedule(scenario.schedule.kind, shape, pp_)) {
      check_interrupt(interrupt);
      StageLowering& part = part_of(action.module);
      switch (action.kind) {
        case ActionKind::forward: part.forward(action.chunk, action.micro_batch); break;
        case ActionKind::backward: part.backward(action.chunk, action.micro_batch); break;
        case ActionKind::weight: part.weight(action.chunk, action.micro_batch); break;
        case ActionKind::exchange: exchange(part, action); break;
      }
    }
    for (StageLowering& part : parts_) part.finish_step();
  }

 private:
  StageLowering& part_of(std::size_t module) {
    for (StageLowering& part : parts_)
      if (part.context().plan->module == module) return part;
    bug("an action of a module that the rank does not hold");
  }

  // The pipeline neighbour behind the virtual stage, or before it.
  std::uint8_t neighbour(const StageLowering& part, int stage, bool behind) {
    const ModulePlan& plan = *part.context().plan;
    const int step = behind ? plan.placement.step_to_next(stage) : -plan.placement.step_to_next(stage - 1);
    const auto [known, fresh] = neighbours_.try_emplace({plan.module, step});
    if (fresh) known->second = builder_.peer(peer_along(plan.grid, Axis::pp, step));
    return known->second;
  }

  void exchange(StageLowering& part, const Action& action) {
    std::vector<Message> messages;
    std::vector<std::uint32_t> reads, writes;
    bool any_backward = false;
    std::string label;
    for (const PipelineTransfer& transfer : action.transfers) {
      any_backward |= transfer.backward;
      Message m;
      m.send = transfer.send;
      // Towards the next stage go outputs; from it come gradients of outputs.
      const bool behind = transfer.send != transfer.backward;
      const int stage = part.virtual_stage(transfer.chunk);
      m.peer = neighbour(part, stage, behind);
      m.tag = message_tag(part.context().module, behind ? stage : stage - 1, transfer.micro_batch, transfer.backward);
      m.tensor = transfer.send ? part.to_send(transfer.chunk, transfer.micro_batch, transfer.backward)
                               : part.receive(transfer.chunk, transfer.micro_batch, transfer.backward);
      (transfer.send ? reads : writes).push_back(m.tensor);
      messages.push_back(m);
      if (!label.empty()) label += ", ";
      label += transfer.send ? "send " : "receive ";
      label += transfer.backward ? "backward" : "forward";
    }
    OpSpec spec;
    spec.kind = OpKind::point_to_point;
    spec.phase = any_backward ? Phase::backward_data : Phase::forward;
    spec.stream = part.context().pipeline_stream;
    spec.module = part.context().module;
    spec.label = label;
    const PipelineTransfer& first = action.transfers.front();
    const Place where{-1, first.micro_batch, first.chunk};
    builder_.append(body_, spec, reads, writes, where, messages);
  }

  ProgramBuilder& builder_;
  Body& body_;
  std::deque<StageLowering> parts_;
  int pp_ = 0;
  std::map<std::pair<std::size_t, int>, std::uint8_t> neighbours_;  // by module and step along pp
};

}  // namespace

std::string name_of(const BodyKey& key) {
  std::string name;
  for (const PartKey& part : key) {
    if (!name.empty()) name += ", ";
    name += "stage " + std::to_string(part.pp);
    if (part.variant >= 0) name += ", sequence part " + std::to_string(part.variant);
  }
  return name;
}

void lower_rank(ProgramBuilder& builder, Body& body, const std::vector<PartInput>& parts,
                const InterruptFlag* interrupt) {
  RankLowering(builder, body, parts).run(interrupt);
}

}  // namespace meshweave
