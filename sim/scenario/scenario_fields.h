// The format of a scenario file: its sections, keys, ranges and defaults, as one field description.
//
// A ScenarioForm holds what the file says before it is checked and resolved; values that the file leaves open are
// unset (0, NaN or an enumerator that no file can name).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/scenario/fields.h"
#include "sim/scenario/scenario.h"

namespace meshweave {

// Enumerators that no file can name, for what is left open.
constexpr auto unset_recompute = static_cast<Recompute>(255);

struct ModuleForm {
  TransformerShape shape;                 // heads as given, without padding
  std::string inside;                     // the host's name; empty: the module has a layout of its own
  Recompute recompute = unset_recompute;  // inside a host
  std::int64_t items = 0;                 // encoder; 0: to be filled in
  CpItems cp_items = CpItems::replicated;
  bool pad_heads = false;
  bool frozen = false;
};

struct EdgeForm {
  std::string from, to;
  double fraction = unset_number;
  std::int64_t merge = 0;  // 0: left open
};

struct LayoutForm {
  LayoutForm() { layout.dp = layout.cp.ulysses = 0; }

  ModuleLayout layout;            // dp, cp.ulysses and rank_count 0 and stages empty: to be filled in
  bool embedding_counts = false;  // even stages in which the embedding takes the place of a layer
  bool loss_counts = false;
};

enum class SlowLink : std::uint8_t { unset, nic, intra };
std::string_view name_of(SlowLink);

// Exactly one of rank (alone), node, link (with rank) and jitter is the target.
struct PerturbForm {
  int rank = -1;
  int node = -1;
  SlowLink link = SlowLink::unset;
  double jitter = unset_number;
  double compute_time = unset_number;
  double bandwidth = unset_number;
};

struct ScenarioForm {
  ScenarioForm();

  std::string schema;    // "$schema", kept as given
  std::string baseline;  // path, relative to the file
  Scenario scenario;     // the sections that need no resolution stand here already
  std::vector<std::pair<std::string, ModuleForm>> modules;
  std::vector<EdgeForm> edges;
  std::vector<std::pair<std::string, LayoutForm>> layouts;  // of the modules that are not inside another
  std::vector<PerturbForm> perturb;
  std::int64_t seed = 1;
  Published published;
};

void scenario_fields(Fields& fields, ScenarioForm& form);

}  // namespace meshweave
