#include "sim/search/strategies.h"

#include <fmt/format.h>

#include <numeric>

#include "sim/base/error.h"
#include "sim/base/text.h"
#include "sim/scenario/json_document.h"

namespace meshweave {
namespace {

// The changes that make strategies of one scenario.
class Variants {
 public:
  Variants(const Scenario& scenario, const StrategySettings& settings, int devices)
      : s_(scenario),
        settings_(settings),
        devices_(devices),
        layout_(scenario.layout_by_module[0]),
        at_(pointer_to("/layout", scenario.model[0].name)) {}

  Strategy data() const {
    Strategy strategy = make(StrategyKind::dp, 1, 1, "DP", fmt::format("dp {}", layout_.dp * devices_));
    finish(strategy, layout_.dp * devices_);
    return strategy;
  }

  Strategy tensor() const {
    Strategy strategy = make(StrategyKind::tp, devices_, 1, "TP", tp_text(devices_));
    finish(strategy, layout_.dp);
    return strategy;
  }

  Strategy sequence() const {
    Strategy strategy = make(StrategyKind::sp, 1, devices_, "SP", cp_text(devices_));
    finish(strategy, layout_.dp);
    return strategy;
  }

  Strategy both(int t) const {
    const int sigma = devices_ / t;
    Strategy strategy = make(StrategyKind::tp_sp, t, sigma, fmt::format("TP+SP (T={}, Σ={})", t, sigma),
                             tp_text(t) + " × " + cp_text(sigma));
    finish(strategy, layout_.dp);
    return strategy;
  }

  Strategy folded() const {
    const std::string ring = layout_.tsp.ring == RingKind::striped ? " striped" : "";
    Strategy strategy = make(StrategyKind::tsp, devices_, devices_, "TSP", fmt::format("tsp {}{}", devices_, ring));
    if (layout_.keep == Keep::keys_values) {
      set(strategy, pointer_to(at_, "keep"), std::string(name_of(Keep::nothing)));
      strategy.notes.push_back("keep is \"nothing\": keys and values visit head by head");
    }
    finish(strategy, layout_.dp);
    return strategy;
  }

 private:
  static void set(Strategy& strategy, std::string pointer, std::string value) {
    strategy.change.push_back({std::move(pointer), std::move(value)});
  }
  static void set(Strategy& strategy, std::string pointer, std::int64_t value) {
    set(strategy, std::move(pointer), fmt::format("{}", value));
  }

  std::string tp_text(int degree) const {
    return fmt::format("tp {}{}", degree, layout_.sequence_parallel ? " sequence-parallel" : "");
  }
  // The scenario's own, if it has one: a ring at degree 1 is the default.
  ContextKind cp_kind() const {
    const bool own = layout_.cp.degree > 1 || layout_.cp.kind != ContextKind::ring;
    return own ? layout_.cp.kind : ContextKind::all_gather;
  }
  std::string cp_text(int degree) const { return fmt::format("cp {} {}", degree, name_of(cp_kind())); }

  Strategy make(StrategyKind kind, int tensor, int sequence, std::string name, std::string layout) const {
    Strategy strategy{kind, tensor, sequence, std::move(name), std::move(layout), {}, {}};
    const bool folded = kind == StrategyKind::tsp;
    const int tp = folded ? 1 : tensor;
    set(strategy, pointer_to(at_, "tp"), tp);
    set(strategy, pointer_to(at_, "cp"), cp_value(folded ? 1 : sequence));
    set(strategy, pointer_to(at_, "tsp"), tsp_value(folded ? devices_ : 1));
    if (layout_.sequence_parallel && tp == 1) set(strategy, pointer_to(at_, "sequence_parallel"), "false");
    return strategy;
  }

  std::string cp_value(int degree) const {
    ContextParallel cp = layout_.cp;
    if (cp.degree == 1) cp.partition = Partition::zigzag;
    Json value = Json::make_object();
    value.add("degree", Json::make(std::int64_t{degree}));
    value.add("kind", Json::make(name_of(cp_kind())));
    value.add("partition", Json::make(name_of(cp.partition)));
    value.add("regather", Json::make(cp.regather));
    return format_json_line(value);
  }

  std::string tsp_value(int degree) const {
    Json value = Json::make_object();
    value.add("degree", Json::make(std::int64_t{degree}));
    value.add("partition", Json::make(name_of(layout_.tsp.partition)));
    value.add("prefetch", Json::make(std::int64_t{layout_.tsp.prefetch}));
    value.add("ring", Json::make(name_of(layout_.tsp.ring)));
    return format_json_line(value);
  }

  // The ranks, the batch, and what is swept.
  void finish(Strategy& strategy, int dp) const {
    set(strategy, pointer_to(at_, "dp"), dp);
    set_cluster(strategy);
    const std::int64_t micro = settings_.micro.value_or(s_.batch.micro);
    const std::int64_t samples = std::int64_t{s_.micro_batches(0)} * micro * layout_.dp;
    // An interleaved schedule takes micro-batches by the pp.
    const std::int64_t global = std::lcm(samples, micro * dp * (layout_.vpp > 1 ? layout_.pp : 1));
    if (settings_.micro) set(strategy, "/batch/micro", micro);
    if (global != s_.batch.global) set(strategy, "/batch/global", global);
    if (global != samples) {
      strategy.notes.push_back(
          fmt::format("global batch {} in the place of {}, so that every rank has {}", global, samples,
                      layout_.vpp > 1 ? fmt::format("{} micro-batches or a multiple", layout_.pp) : "a sample"));
    }
    if (settings_.sequence) {
      set(strategy, pointer_to(pointer_to("/model", s_.model[0].name), "sequence"), *settings_.sequence);
    }
  }

  void set_cluster(Strategy& strategy) const {
    const std::int64_t ranks = std::int64_t{devices_} * layout_.pp * layout_.dp;
    if (ranks == s_.cluster.ranks()) return;
    if (ranks < s_.cluster.node.gpus) set(strategy, "/cluster/node/gpus", ranks);
    set(strategy, "/cluster/nodes", std::max<std::int64_t>(1, ranks / s_.cluster.node.gpus));
  }

  const Scenario& s_;
  const StrategySettings& settings_;
  const int devices_;
  const ModuleLayout& layout_;
  const std::string at_;
};

void check_comparable(const Scenario& scenario, int devices) {
  if (num_vertices(scenario.model) != 1) throw InputError("strategies are compared for a model of one module");
  if (devices < 2) {
    throw InputError("the layout has tp · cp · tsp = 1: strategies are compared on 2 devices or more (--devices N)");
  }
  const ModuleLayout& layout = scenario.layout_by_module[0];
  const std::int64_t ranks = std::int64_t{devices} * layout.pp * layout.dp;
  const int gpus = scenario.cluster.node.gpus;
  if (ranks > gpus && ranks % gpus != 0) {
    throw InputError(fmt::format("{} devices · pp {} · dp {} = {} ranks are no whole nodes of {}", devices, layout.pp,
                                 layout.dp, ranks, count_text(gpus, "GPU")));
  }
}

}  // namespace

std::string_view name_of(StrategyKind kind) {
  switch (kind) {
    case StrategyKind::dp: return "DP";
    case StrategyKind::tp: return "TP";
    case StrategyKind::sp: return "SP";
    case StrategyKind::tp_sp: return "TP+SP";
    case StrategyKind::tsp: return "TSP";
  }
  bug("unknown strategy");
}

int devices_of(const Scenario& scenario) {
  const ModuleLayout& layout = scenario.layout_by_module.at(0);
  return layout.tp * layout.cp.degree * layout.tsp.degree;
}

std::vector<Strategy> strategies(const Scenario& scenario, const StrategySettings& settings) {
  const int devices = settings.devices > 0 ? settings.devices : devices_of(scenario);
  check_comparable(scenario, devices);
  const Variants variants(scenario, settings, devices);
  std::vector<Strategy> all{variants.data(), variants.tensor(), variants.sequence()};
  for (int t = devices / 2; t > 1; --t) {
    if (devices % t == 0) all.push_back(variants.both(t));
  }
  all.push_back(variants.folded());
  return all;
}

}  // namespace meshweave
