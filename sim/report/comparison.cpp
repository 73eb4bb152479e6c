#include "sim/report/comparison.h"

#include <algorithm>

#include "sim/base/error.h"
#include "sim/report/build_trace.h"
#include "sim/report/report.h"
#include "sim/scenario/json_document.h"
#include "sim/scenario/reader.h"

namespace meshweave {
namespace {

std::optional<Json> parse_resolved(std::string_view text) {
  JsonError ignored;  // of another version's scenario
  return text.empty() ? std::nullopt : parse_json(text, ignored);
}

class SettingFinder {
 public:
  std::vector<SettingPair> found;

  void compare(const std::string& pointer, const Json& a, const Json& b) {
    if (a.is(Json::Kind::object) && b.is(Json::Kind::object)) return compare_members(pointer, a, b);
    if (a.is(Json::Kind::array) && b.is(Json::Kind::array) && a.items.size() == b.items.size()) {
      for (std::size_t i = 0; i < a.items.size(); ++i) compare(pointer_to(pointer, i), a.items[i], b.items[i]);
      return;
    }
    add(pointer, &a, &b);
  }

 private:
  void compare_members(const std::string& pointer, const Json& a, const Json& b) {
    const Json* name_a = a.find("name");
    const Json* name_b = b.find("name");
    const bool root = pointer.empty();
    if (!root && name_a != nullptr && name_b != nullptr && format_json_line(*name_a) != format_json_line(*name_b)) {
      return add(pointer_to(pointer, "name"), name_a, name_b);
    }
    for (std::size_t i = 0; i < a.keys.size(); ++i) {
      if (root && left_out(a.keys[i])) continue;
      const std::string at = pointer_to(pointer, a.keys[i]);
      const Json* other = b.find(a.keys[i]);
      other != nullptr ? compare(at, a.items[i], *other) : add(at, &a.items[i], nullptr);
    }
    for (std::size_t i = 0; i < b.keys.size(); ++i) {
      if ((root && left_out(b.keys[i])) || a.find(b.keys[i]) != nullptr) continue;
      add(pointer_to(pointer, b.keys[i]), nullptr, &b.items[i]);
    }
  }

  static bool left_out(std::string_view key) { return key == "name" || key == "published"; }

  void add(const std::string& pointer, const Json* a, const Json* b) {
    SettingPair pair{pointer, a != nullptr ? format_json_line(*a) : "", b != nullptr ? format_json_line(*b) : ""};
    if (pair.a != pair.b) found.push_back(std::move(pair));
  }
};

// By key, in the order of HeadlinePair's comment.
std::vector<std::pair<std::string_view, std::optional<double>>> headlines_of(const ComparedRun& run) {
  const PartMeans& mean = run.parts.mean;
  const double step_s = seconds_from_picoseconds(run.parts.step);
  const auto share = [&](Picoseconds part) {
    return static_cast<double>(part.count()) / static_cast<double>(run.parts.step.count());
  };
  std::optional<double> tokens, flops, mfu, gpus, batch, micro_batches;
  if (run.scenario) {
    const Scenario& s = *run.scenario;
    const std::size_t sink = sink_module(s.model);
    gpus = s.cluster.ranks();
    batch = static_cast<double>(s.batch.global);
    micro_batches = s.micro_batches(sink);
    tokens = *batch / step_s * static_cast<double>(s.model[sink].shape.sequence);
    const double model_flops = model_flops_of_step(s);
    flops = model_flops / step_s / *gpus * 1e-12;
    mfu = model_flops / step_s / (s.cluster.node.device.peak_flops_per_s * *gpus);
  }
  return {{"step_time_s", step_s},
          {"tokens_per_s", tokens},
          {"tflops_per_gpu", flops},
          {"mfu", mfu},
          {"peak_memory_bytes", static_cast<double>(mean.peak_memory_bytes)},
          {"gpus", gpus},
          {"global_batch", batch},
          {"micro_batches", micro_batches},
          {"exposed_comm_fraction", share(mean.of(PartKind::exposed) + mean.of(PartKind::boundary))},
          {"bubble_fraction", share(mean.of(PartKind::bubble))}};
}

std::vector<StepPart> groups_of(const PartMeans& mean) {
  std::vector<StepPart> groups;
  for (const PartKind part : all_part_kinds) groups.push_back({{part, {}, {}}, mean.of(part)});
  return groups;
}

}  // namespace

ComparedRun compared_run(const RunView& run, const std::string& file) {
  ComparedRun compared = compared_run(build_trace(run, TraceRequest{}, ""), file);
  compared.from_trace = false;
  compared.scenario = run.scenario;
  return compared;
}

ComparedRun compared_run(const Trace& trace, const std::string& file) {
  ComparedRun compared;
  compared.file = file;
  compared.from_trace = true;
  compared.name = trace.provenance.name;
  compared.executor = trace.provenance.executor;
  compared.resolved = trace.provenance.resolved;
  compared.parts = step_parts(trace);
  if (compared.resolved.empty()) return compared;
  try {
    compared.scenario = parse_scenario(compared.resolved, file);
  } catch (const InputError&) {
    // Of a version with other settings: the times are compared, what follows from the scenario is left out.
  }
  return compared;
}

std::optional<std::vector<SettingPair>> differing_settings(std::string_view a, std::string_view b) {
  const std::optional<Json> json_a = parse_resolved(a);
  const std::optional<Json> json_b = parse_resolved(b);
  if (!json_a || !json_b) return std::nullopt;
  SettingFinder finder;
  finder.compare("", *json_a, *json_b);
  return std::move(finder.found);
}

Comparison compare_runs(ComparedRun a, ComparedRun b) {
  Comparison comparison;
  comparison.settings = differing_settings(a.resolved, b.resolved);
  comparison.parts = compare_parts(a.parts.mean.parts, b.parts.mean.parts);
  comparison.groups = compare_parts(groups_of(a.parts.mean), groups_of(b.parts.mean));
  const auto of_a = headlines_of(a);
  const auto of_b = headlines_of(b);
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    comparison.headlines.push_back({of_a[i].first, of_a[i].second, of_b[i].second});
  }
  comparison.a = std::move(a);
  comparison.b = std::move(b);
  return comparison;
}

}  // namespace meshweave
