#include "sim/lower/lower.h"

#include <map>
#include <utility>

#include "sim/base/error.h"
#include "sim/lower/rank_lowering.h"
#include "sim/program/hoist.h"

namespace meshweave {

namespace {

// Under a causal mask contiguous shards of the sequence have different work: their ranks have bodies of their own.
bool work_depends_on_rank(const ModuleContext& context) {
  return context.ring() > 1 && context.partition() == Partition::contiguous &&
         context.shape().mask == AttentionMask::causal;
}

// What a module's parts are stamped from. A variant of the sequence has a context and blocks of its own.
class ModuleLowering {
 public:
  ModuleLowering(ProgramBuilder& builder, const Scenario& scenario, const ModulePlan& plan)
      : context_(make_context(builder, scenario, plan)), plan_(plan), varies_(work_depends_on_rank(context_)) {}

  const ModuleContext& context() const { return context_; }

  // The part that `rank` holds, which is in the module's grid.
  PartKey key(int rank) const {
    const Axis ring = context_.tsp() > 1 ? Axis::tsp : Axis::cp;
    return {plan_.module, varies_ ? plan_.grid.coordinate(rank, ring) : -1, plan_.grid.coordinate(rank, Axis::pp)};
  }

  PartInput part(ProgramBuilder& builder, const PartKey& key) {
    auto [known, fresh] = variants_.try_emplace(key.variant);
    Variant& variant = known->second;
    if (fresh) {
      variant.context = context_;
      variant.context.sequence_index = key.variant;
      variant.blocks = make_blocks(builder, variant.context);
    }
    return {key, &variant.context, &variant.blocks};
  }

 private:
  struct Variant {
    ModuleContext context;
    ModuleBlocks blocks;
  };

  ModuleContext context_;
  const ModulePlan& plan_;
  bool varies_;
  std::map<int, Variant> variants_;  // by PartKey::variant; blocks point to their context
};

void move_communications_up(Program& program, Body& body, const ModuleContext& context) {
  const Overlap& overlap = context.scenario->overlap;
  if (overlap.tp) hoist_tensor_communication(program, body, context.tensor_stream, overlap.depth);
  const int ahead = context.tsp() > 1 ? context.layout().tsp.prefetch : overlap.cp ? 1 : 0;
  if (ahead == 0 || context.sequence_axes == 0) return;
  hoist_visitors(program, body, context.context_stream, ahead);
  if (context.tsp() > 1) hoist_visitors(program, body, context.weight_stream, ahead);
}

}  // namespace

Program lower(const Scenario& scenario, const Plan& plan, const InterruptFlag* interrupt) {
  ProgramBuilder builder;
  std::vector<ModuleLowering> modules;
  for (const ModulePlan& module : plan.modules) {
    modules.emplace_back(builder, scenario, module);
    builder.program().grid_of_module.push_back(modules.back().context().grid);
  }

  std::vector<BodyKey> key_of_rank(static_cast<std::size_t>(plan.ranks));
  std::map<BodyKey, std::uint32_t> bodies;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    BodyKey& key = key_of_rank[static_cast<std::size_t>(rank)];
    for (std::size_t m = 0; m < modules.size(); ++m)
      if (plan.modules[m].grid.contains(rank)) key.push_back(modules[m].key(rank));
    bodies.emplace(key, 0);
  }
  for (auto& [key, index] : bodies) {
    index = static_cast<std::uint32_t>(builder.program().bodies.size());
    Body& body = builder.add_body(name_of(key));
    std::vector<PartInput> parts;
    for (const PartKey& part : key) parts.push_back(modules[part.module].part(builder, part));
    lower_rank(builder, body, parts, interrupt);
  }
  for (const auto& [key, index] : bodies) {
    check_interrupt(interrupt);
    for (const PartKey& part : key)
      move_communications_up(builder.program(), builder.program().bodies[index], modules[part.module].context());
  }
  for (const BodyKey& key : key_of_rank) builder.program().body_of_rank.push_back(bodies.at(key));
  return builder.take();
}

}  // namespace meshweave
