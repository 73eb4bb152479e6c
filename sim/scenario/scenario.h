// A resolved scenario: checked, all references followed, every default filled in. `meshweave check` prints it.
//
// Vectors named *_by_module are indexed by the module graph's vertex.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/module_graph.h"
#include "topologies/cluster.h"

namespace meshweave {

enum class DType : std::uint8_t { bf16, fp16, fp32, fp8, int64, uint8 };
constexpr std::int64_t bytes_of(DType t) {
  switch (t) {
    case DType::bf16:
    case DType::fp16: return 2;
    case DType::fp32: return 4;
    case DType::fp8:
    case DType::uint8: return 1;
    case DType::int64: return 8;
  }
  return 0;
}
std::string_view name_of(DType);

enum class Recompute : std::uint8_t { none, selective, full };
std::string_view name_of(Recompute);

// Which tokens a rank of a sequence axis of degree D holds: the p-th of D equal parts, or the segments p and 2D−1−p of
// 2D, so that causal attention costs all ranks the same.
enum class Partition : std::uint8_t { zigzag, contiguous };
std::string_view name_of(Partition);

enum class ContextKind : std::uint8_t { ring, all_gather, ulysses, ulysses_ring };
std::string_view name_of(ContextKind);

// Context parallelism: the sequence is sharded, weights are not.
struct ContextParallel {
  int degree = 1;
  ContextKind kind = ContextKind::ring;
  Partition partition = Partition::zigzag;
  int ulysses = 1;       // ranks that exchange heads, inside those of the ring; 1 for ring and all-gather
  bool regather = true;  // all-gather: keys and values are gathered again for the backward

  int ring() const { return degree / ulysses; }  // ranks along the ring, or of the gather
};

enum class RingKind : std::uint8_t { plain, striped };
std::string_view name_of(RingKind);

// Tensor and sequence parallelism folded onto one axis (TSP): each rank holds a part of every weight and of the tokens.
struct Folded {
  int degree = 1;
  Partition partition = Partition::zigzag;
  int prefetch = 1;  // how many weight shards are under way ahead of the one in use; 0: no overlap
  RingKind ring = RingKind::plain;
  bool regather = true;  // attention weights visit again for the backward
};

// What full recompute saves beside a layer's input.
enum class Keep : std::uint8_t { nothing, keys_values };
std::string_view name_of(Keep);

// The parallel layout of one module (design: "Layout of a module"). ep, etp > 1 are refused by the reader until they
// are supported. A module inside another has a copy of its host's, without sequence parallelism, with its own recompute
// and with all of its layers in the host's first or last virtual stage (Module::host_stage).
struct ModuleLayout {
  int tp = 1, ep = 1, dp = 1, pp = 1;
  ContextParallel cp;
  Folded tsp;
  int vpp = 1;
  bool sequence_parallel = false;
  int zero = 0;  // 0, or 1: distributed optimizer
  int optimizer_instances = 1;
  Recompute recompute = Recompute::none;
  Keep keep = Keep::nothing;
  std::vector<int> stages;  // layers per virtual stage, pp·vpp entries in model order; always filled
  int rank_offset = 0;
  int rank_count = 0;                    // tp·cp·tsp·dp·pp
  std::string order = "tp-cp-ep-dp-pp";  // tsp takes the place of tp when it is not named

  // Parts of every weight.
  int weight_shards() const { return tp * tsp.degree; }
  // Ranks that hold one replica of the parameters, or share its tokens.
  std::int64_t model_ranks() const { return std::int64_t{tp} * cp.degree * tsp.degree * pp; }
};

// Samples without items: the last `samples` of every `every` consecutive ones of a step. Whole micro-batches of all
// data-parallel ranks are, or are not, text only.
struct TextOnly {
  std::int64_t samples = 0;
  std::int64_t every = 0;  // divides the global batch; 0 with no samples

  bool contains(std::int64_t sample) const { return samples > 0 && sample % every >= every - samples; }
};

struct Batch {
  std::int64_t global = 0;  // samples per step
  std::int64_t micro = 1;   // samples per micro-batch per data-parallel rank
  TextOnly text_only;

  std::int64_t samples_with_items() const {
    return text_only.samples > 0 ? global / text_only.every * (text_only.every - text_only.samples) : global;
  }
};

// Which positions of a sample the loss counts: all, or those that hold text (no rows of an edge), behind a prompt. The
// prompt's length is drawn per sample, evenly from 0 to 2·prompt of these positions. The counted positions are the last
// ones of the sample then; the loss is the mean over those of the whole batch, at least one.
enum class LossTokens : std::uint8_t { all, text };
std::string_view name_of(LossTokens);
struct LossSettings {
  LossTokens tokens = LossTokens::all;
  double prompt = 0;
};

enum class ScheduleKind : std::uint8_t { gpipe, one_f_one_b };  // interleaved is vpp > 1
std::string_view name_of(ScheduleKind);
struct Schedule {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  bool defer_weight_gradients = false;  // a stage's weight gradients after the send of its data gradient
};

struct Overlap {
  bool grad_reduce = true;   // gradient buckets reduced behind the backward of the last micro-batch
  bool param_gather = true;  // parameter buckets gathered behind the next forward (ZeRO-1)
  bool tp = false;           // tensor-parallel matmuls and their gathers/scatters in pieces
  int tp_chunks = 4;
  bool cp = true;  // ring steps are under way, and gathers are issued, ahead of their use
  int depth = 1;   // how many earlier tensor communications a moved one may pass
};

struct Precision {
  DType parameters = DType::bf16;
  DType activations = DType::bf16;
  DType main_gradients = DType::fp32;
  DType main_parameters = DType::fp32;
  DType moments = DType::fp32;
  double workspace_bytes_per_parameter = 0;  // transient optimizer workspace, held like optimizer state
};

// Adam (Kingma and Ba 1412.6980), without weight decay; the defaults are those of Llama 2 (2307.09288, section 2.2) but
// for the rate. Times do not depend on it, emulated values do.
struct AdamSettings {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-5;
  bool operator==(const AdamSettings&) const = default;
};

struct Optimizer {
  double clip = 1.0;                   // global gradient-norm clip; 0 leaves norm, all-reduces and host sync out
  std::int64_t bucket_parameters = 0;  // 0: Megatron's rule max(40e6, 1e6·dp)
  AdamSettings adam;
};

enum class Pass : std::uint8_t { train, forward };
std::string_view name_of(Pass);

struct HostSettings {
  bool graphs = false;  // CUDA graphs: issuing costs nothing
  double issue_s = -1;  // per op; negative: the device's value
};

// What a collective on a full mesh uses of a member's links inside the node; a switch has one port per member.
enum class MeshLinks : std::uint8_t {
  all,  // rings are striped over the links to all members of the node
  one,  // a plain ring: the link to the next member
};
std::string_view name_of(MeshLinks);
struct CollectiveSettings {
  MeshLinks mesh = MeshLinks::all;
};

enum class CostKind : std::uint8_t { model, fixed };
std::string_view name_of(CostKind);
struct CostSettings {
  CostKind kind = CostKind::model;
  // `fixed`: seconds per rank and micro-batch, divided over its virtual stages.
  double forward_s = 0, backward_data_s = 0, backward_weight_s = 0;
};

enum class PerturbTarget : std::uint8_t { rank, node, link, jitter };
struct Perturbation {
  PerturbTarget target = PerturbTarget::rank;
  int index = 0;            // rank (of a link too) or node
  std::string link;         // "nic" or "intra", for target link
  double compute_time = 1;  // factor on compute durations (rank, node)
  double bandwidth = 1;     // factor on the link's bandwidth (link)
  double sigma = 0;         // jitter: durations × exp(sigma·normal), mean-corrected

  bool slows() const { return compute_time > 1 || bandwidth < 1 || sigma > 0; }
};

// A published result, shown beside ours: result keys to values, in the result's units.
struct Published {
  std::map<std::string, double> values;
  std::string source;
  // Where an override makes the scenario another than the one that was published, such as "/layout/language/tp";
  // empty: the two can be compared.
  std::string differs_at;
};

struct Scenario {
  std::string file;  // as the user named it
  std::string name;
  Cluster cluster;
  ModuleGraph model;
  std::vector<ModuleLayout> layout_by_module;
  Batch batch;
  LossSettings loss;
  Pass pass = Pass::train;
  Schedule schedule;
  Overlap overlap;
  Precision precision;
  Optimizer optimizer;
  HostSettings host;
  CollectiveSettings collectives;
  CostSettings cost;
  std::vector<Perturbation> perturb;
  std::uint64_t seed = 1;
  std::optional<Published> published;
  std::string resolved_json;  // the scenario with all defaults, as `check` prints it (keys sorted as in the docs)
  std::vector<std::pair<std::string, std::string>> inputs;  // file name, hash of its content (provenance)

  int micro_batches(std::size_t module) const {
    return static_cast<int>(batch.global / (batch.micro * layout_by_module[module].dp));
  }
  // Whether no sample of a micro-batch has items, on any data-parallel rank. All modules have the same dp.
  bool text_only(int micro_batch) const {
    return batch.text_only.contains(micro_batch * batch.micro * layout_by_module.front().dp);
  }
};

// Throws InputError for a graph of several modules, which no executor runs yet.
void require_one_module(const Scenario& scenario);

}  // namespace meshweave
