#include "sim/scenario/scenario_fields.h"

#include <array>
#include <cmath>

#include "sim/scenario/catalog.h"
#include "sim/scenario/zoo.h"

namespace meshweave {
namespace {

using enum QuantityKind;

constexpr std::int64_t most_ranks = 1 << 20;
constexpr std::int64_t largest_batch = 1'000'000'000;
constexpr NumberRange duration{0, 1e6};  // seconds
constexpr NumberRange slow_down{0, 1000, true};
constexpr IntegerRange degree{1, most_ranks};

// The keys of a published result, as --json prints results.
constexpr std::array<Key, 9> published_keys{{
    {"step_time_s", "seconds per step", Need::absent},
    {"samples_per_s", "samples per second", Need::absent},
    {"tokens_per_s", "tokens per second", Need::absent},
    {"tflops_per_gpu", "model TFLOP/s per GPU", Need::absent},
    {"mfu", "model FLOPs over peak", Need::absent},
    {"hfu", "executed FLOPs over peak", Need::absent},
    {"bubble_fraction", "pipeline bubble over step time", Need::absent},
    {"exposed_comm_fraction", "exposed communication over step time", Need::absent},
    {"peak_memory_bytes", "largest peak of any rank", Need::absent},
}};

void cluster_fields(Fields& f, Cluster& cluster) {
  f.entry({"node", "the nodes, all equal", Need::required}, Library::nodes, cluster.node.name,
          [&](Fields& g) { node_fields(g, cluster.node); });
  f.integer({"nodes", "how many"}, cluster.nodes, {1, most_ranks});
  f.entry(
      {"fabric", "the network between nodes; default: rail-400g"}, Library::fabrics, cluster.fabric.name,
      [&](Fields& g) { fabric_fields(g, cluster.fabric); }, "rail-400g");
}

void module_fields(Fields& f, ModuleForm& form) {
  TransformerShape& shape = form.shape;
  f.base({zoo_key, "the model whose shape this module has, where the keys beside it do not change it"}, Library::models,
         shape.zoo, [&](Fields& g) { shape_fields(g, shape); });
  shape_fields(f, shape);
  f.text({"inside", "the module in whose pipeline stages this one stands, with that one's layout", Need::absent},
         form.inside);
  f.choice({"recompute", "inside another module: as of a layout; default: that of the host's", Need::absent},
           form.recompute, {Recompute::none, Recompute::selective, Recompute::full});
  f.flag({"frozen", "the parameters are not trained"}, form.frozen);
  f.where(shape.kind == ModuleKind::encoder, "an encoder (\"kind\": \"encoder\")", [&](Fields& g) {
    g.integer({"items", "items of a sample; default: as many as the fraction of the edge asks for", Need::derived},
              form.items, {1, 1 << 24});
    g.choice({"cp_items", "the host's cp ranks compute all items each, or divide them"}, form.cp_items,
             {CpItems::replicated, CpItems::divided});
    g.flag({"pad_heads", "heads that are zero fill up what tp does not divide"}, form.pad_heads);
  });
}

void edge_fields(Fields& f, EdgeForm& edge) {
  f.text({"from", "the module whose rows it carries", Need::required}, edge.from);
  f.text({"to", "the module that takes them", Need::required}, edge.to);
  f.number({"fraction", "share of the language model's tokens that come over this edge", Need::absent}, edge.fraction,
           {0, 1, true});
  f.integer({"merge", "tokens of the encoder that make one of the language model; default: 1", Need::absent},
            edge.merge, {1, 1 << 16});
}

void text_only_fields(Fields& f, TextOnly& text_only) {
  f.integer({"samples", "how many of the samples have no items: the last ones", Need::absent}, text_only.samples,
            {1, largest_batch});
  f.integer({"every", "of how many consecutive samples; default: of the step's", Need::absent}, text_only.every,
            {1, largest_batch});
}

void batch_fields(Fields& f, Batch& batch) {
  f.integer({"global", "samples per step", Need::required}, batch.global, {1, largest_batch});
  f.integer({"micro", "samples per micro-batch and data-parallel rank"}, batch.micro, {1, largest_batch});
  f.object(
      {"text_only", "samples without items", Need::absent}, [&](Fields& g) { text_only_fields(g, batch.text_only); },
      "samples");
}

void loss_fields(Fields& f, LossSettings& loss) {
  f.choice({"tokens", "positions that the loss counts: all, or those that hold text"}, loss.tokens,
           {LossTokens::all, LossTokens::text});
  f.number({"prompt", "mean share of these that are a prompt, which is not counted; its length differs by sample"},
           loss.prompt, {0, 0.5});
}

void stage_fields(Fields& f, LayoutForm& form) {
  f.flag({"embedding", "the embedding takes the place of a layer in the first stage"}, form.embedding_counts);
  f.flag({"loss", "output layer and loss take the place of a layer in the last stage"}, form.loss_counts);
}

void rank_fields(Fields& f, ModuleLayout& layout) {
  f.integer({"offset", "first rank"}, layout.rank_offset, {0, most_ranks});
  f.integer({"size", "how many ranks; default: all that follow", Need::derived}, layout.rank_count, degree);
}

void context_fields(Fields& f, ContextParallel& cp) {
  f.integer({"degree", "ranks that share a sequence"}, cp.degree, degree);
  f.choice({"kind", "how attention reaches the keys of other ranks; ulysses-ring: ulysses inside, ring outside"},
           cp.kind, {ContextKind::ring, ContextKind::all_gather, ContextKind::ulysses, ContextKind::ulysses_ring});
  f.choice({"partition", "which tokens a rank holds"}, cp.partition, {Partition::zigzag, Partition::contiguous});
  f.integer({"ulysses", "ulysses-ring: ranks that exchange heads; default: as many as the heads allow", Need::derived},
            cp.ulysses, degree);
  f.flag({"regather", "all-gather: keys and values are gathered again for the backward instead of kept"}, cp.regather);
}

void folded_fields(Fields& f, Folded& tsp) {
  f.integer({"degree", "ranks that share weights and sequence"}, tsp.degree, degree);
  f.choice({"partition", "which tokens a rank holds"}, tsp.partition, {Partition::zigzag, Partition::contiguous});
  f.integer({"prefetch", "weight shards under way ahead of the one in use; 0: no overlap"}, tsp.prefetch, {0, 64});
  f.choice({"ring", "of the MLP's weights: one link per hop, or striped over all links of a full mesh"}, tsp.ring,
           {RingKind::plain, RingKind::striped});
  f.flag({"regather", "attention weights visit again for the backward instead of being kept"}, tsp.regather);
}

void layout_fields(Fields& f, LayoutForm& form) {
  ModuleLayout& layout = form.layout;
  f.integer({"tp", "tensor parallelism"}, layout.tp, degree);
  f.object(
      {"cp", "context parallelism: the sequence sharded, weights whole"},
      [&](Fields& g) { context_fields(g, layout.cp); }, "degree");
  f.object(
      {"tsp", "tensor and sequence parallelism folded onto one axis"}, [&](Fields& g) { folded_fields(g, layout.tsp); },
      "degree");
  f.integer({"pp", "pipeline stages"}, layout.pp, {1, 1024});
  f.integer({"vpp", "virtual stages per pipeline rank; above 1: interleaved"}, layout.vpp, {1, 1024});
  f.integer({"dp", "data parallelism; default: fills the ranks", Need::derived}, layout.dp, degree);
  f.only({"ep", "expert parallelism"}, 1);
  f.only({"etp", "tensor parallelism of experts"}, 1);
  f.flag({"sequence_parallel", "Megatron's sequence parallelism over the tp ranks"}, layout.sequence_parallel);
  f.integer({"zero", "1: optimizer state sharded over dp (distributed optimizer)"}, layout.zero, {0, 1});
  f.integer({"optimizer_instances", "groups of dp ranks that hold a whole optimizer state each"},
            layout.optimizer_instances, degree);
  f.choice({"recompute", "activations computed again in the backward pass"}, layout.recompute,
           {Recompute::none, Recompute::selective, Recompute::full});
  f.choice({"keep", "what recompute full saves beside the input of a layer"}, layout.keep,
           {Keep::nothing, Keep::keys_values});
  f.integers({"stages", "layers of each virtual stage; default: the same for all", Need::derived}, layout.stages,
             {0, 10'000}, [&](Fields& g) { stage_fields(g, form); });
  f.object({"ranks", "the ranks that the module runs on; default: all"}, [&](Fields& g) { rank_fields(g, layout); });
  f.text({"order", "axes from fastest to slowest varying rank"}, layout.order);
}

void schedule_fields(Fields& f, Schedule& schedule) {
  f.choice({"kind", "of the pipeline"}, schedule.kind, {ScheduleKind::gpipe, ScheduleKind::one_f_one_b},
           {"three-phase", "graph-1f1b", "zero-bubble"});
  f.flag({"defer_weight_gradients", "weight gradients after the send of the data gradient"},
         schedule.defer_weight_gradients);
  f.unsupported({"offload", "offloading"});
}

void overlap_fields(Fields& f, Overlap& overlap) {
  f.flag({"grad_reduce", "gradients are reduced behind the backward of the last micro-batch"}, overlap.grad_reduce);
  f.flag({"param_gather", "parameters are gathered behind the next forward (zero 1)"}, overlap.param_gather);
  f.flag({"tp", "tensor-parallel matmuls and communication run in chunks, side by side"}, overlap.tp);
  f.integer({"tp_chunks", "chunks of one matmul"}, overlap.tp_chunks, {1, 64});
  f.flag({"cp", "keys and values of context parallelism are under way ahead of their use"}, overlap.cp);
  f.integer({"depth", "earlier tensor communications that a moved one may pass"}, overlap.depth, {0, 64});
}

void precision_fields(Fields& f, Precision& precision) {
  using enum DType;
  f.choice({"parameters", "of the model"}, precision.parameters, {bf16, fp16, fp32}, {"fp8"});
  f.choice({"activations", "and their gradients; default: as parameters", Need::derived}, precision.activations,
           {bf16, fp16, fp32}, {"fp8"});
  f.choice({"main_gradients", "accumulated over micro-batches and reduced over dp"}, precision.main_gradients,
           {bf16, fp16, fp32}, {"fp8"});
  f.choice({"main_parameters", "kept by the optimizer"}, precision.main_parameters, {bf16, fp16, fp32});
  f.choice({"moments", "of Adam"}, precision.moments, {bf16, fp16, fp32}, {"fp8"});
  f.quantity({"workspace_per_parameter", "transient workspace of the optimizer"},
             precision.workspace_bytes_per_parameter, bytes, {0, 64});
}

void optimizer_fields(Fields& f, Optimizer& optimizer) {
  f.number({"clip", "largest global gradient norm; 0: no clipping"}, optimizer.clip, {0, 1e9});
  f.integer({"bucket_parameters", "parameters per gradient bucket; default: max(40e6, 1e6 · dp)", Need::derived},
            optimizer.bucket_parameters, {1, 1'000'000'000'000});
  f.number({"learning_rate", "of Adam; changes emulated values only, as the three below"}, optimizer.adam.learning_rate,
           {0, 1e3});
  f.number({"beta1", "decay of Adam's first moment"}, optimizer.adam.beta1, {0, 0.9999999});
  f.number({"beta2", "decay of Adam's second moment"}, optimizer.adam.beta2, {0, 0.9999999});
  f.number({"epsilon", "added to the root of Adam's second moment"}, optimizer.adam.epsilon, {1e-30, 1});
}

void host_fields(Fields& f, HostSettings& host) {
  f.flag({"graphs", "CUDA graphs: issuing an op costs nothing"}, host.graphs);
  f.quantity({"issue", "host time per op; default: that of the device", Need::derived}, host.issue_s, seconds, {0, 1});
}

void collective_fields(Fields& f, CollectiveSettings& collectives) {
  f.choice({"mesh",
            "what a collective on a full mesh uses: all links between the members, or a plain ring with one link per "
            "hop"},
           collectives.mesh, {MeshLinks::all, MeshLinks::one});
}

void cost_fields(Fields& f, CostSettings& cost) {
  f.choice({"kind", "model: from the device's constants; fixed: the times beside it"}, cost.kind,
           {CostKind::model, CostKind::fixed});
  f.quantity({"forward", "fixed: per rank and micro-batch", Need::absent}, cost.forward_s, seconds, duration);
  f.quantity({"backward_data", "fixed: data gradients", Need::absent}, cost.backward_data_s, seconds, duration);
  f.quantity({"backward_weight", "fixed: weight gradients", Need::absent}, cost.backward_weight_s, seconds, duration);
}

void perturb_fields(Fields& f, PerturbForm& perturb) {
  f.integer({"rank", "the rank that is slow, or whose link is", Need::absent}, perturb.rank, {0, most_ranks});
  f.integer({"node", "the node whose ranks are slow", Need::absent}, perturb.node, {0, most_ranks});
  f.choice({"link", "the rank's link that is slow", Need::absent}, perturb.link, {SlowLink::nic, SlowLink::intra});
  f.number({"compute_time", "factor on durations of compute ops", Need::absent}, perturb.compute_time, slow_down);
  f.number({"bandwidth", "factor on the bandwidth of the link", Need::absent}, perturb.bandwidth, slow_down);
  f.number({"jitter", "relative spread of all compute durations", Need::absent}, perturb.jitter, {0, 1});
}

void published_fields(Fields& f, Published& published) {
  for (const Key& key : published_keys) {
    const std::string name(key.name);
    double value = published.values.count(name) ? published.values[name] : unset_number;
    f.number(key, value, {0, 1e30});
    if (!std::isnan(value)) published.values[name] = value;
  }
  f.text({"source", "where the result was published", Need::required}, published.source);
}

}  // namespace

std::string_view name_of(SlowLink link) {
  switch (link) {
    case SlowLink::unset: return "";
    case SlowLink::nic: return "nic";
    case SlowLink::intra: return "intra";
  }
  return "";
}

ScenarioForm::ScenarioForm() {
  scenario.precision.activations = DType::uint8;
  scenario.cost.forward_s = unset_number;
  scenario.cost.backward_data_s = unset_number;
  scenario.cost.backward_weight_s = unset_number;
}

void scenario_fields(Fields& f, ScenarioForm& form) {
  Scenario& s = form.scenario;
  f.text({"$schema", "the JSON Schema of this file, for editors", Need::absent}, form.schema);
  f.text({"name", "what reports call the scenario; default: the file's name", Need::derived}, s.name);
  f.text({"baseline", "the scenario that this one is compared with, relative to this file", Need::absent},
         form.baseline);
  f.object({"cluster", "what it runs on", Need::required}, [&](Fields& g) { cluster_fields(g, s.cluster); });
  f.named({"model", "the modules that are trained, by name", Need::required}, form.modules, module_fields);
  f.list({"edges", "which module feeds which: [ from, to ], or an object"}, form.edges, edge_fields, {"from", "to"});
  f.object({"batch", "samples", Need::required}, [&](Fields& g) { batch_fields(g, s.batch); });
  f.named({"layout", "the parallel layout of each module, by its name", Need::required}, form.layouts, layout_fields);
  f.choice({"pass", "train, or forward only: with output layer and loss, as in an evaluation"}, s.pass,
           {Pass::train, Pass::forward});
  f.object(
      {"loss", "what is trained for"}, [&](Fields& g) { loss_fields(g, s.loss); }, "tokens");
  f.object({"schedule", "order of the micro-batches"}, [&](Fields& g) { schedule_fields(g, s.schedule); });
  f.unsupported({"boundary", "a boundary between modules"});
  f.object({"overlap", "what runs side by side"}, [&](Fields& g) { overlap_fields(g, s.overlap); });
  f.object({"precision", "number formats"}, [&](Fields& g) { precision_fields(g, s.precision); });
  f.object({"optimizer", "Adam"}, [&](Fields& g) { optimizer_fields(g, s.optimizer); });
  f.object({"host", "how ops are launched"}, [&](Fields& g) { host_fields(g, s.host); });
  f.object({"collectives", "how groups communicate"}, [&](Fields& g) { collective_fields(g, s.collectives); });
  f.object(
      {"cost", "where durations come from"}, [&](Fields& g) { cost_fields(g, s.cost); }, "kind");
  f.list({"perturb", "what is slower than it should be"}, form.perturb, perturb_fields);
  f.integer({"seed", "of random numbers"}, form.seed, {0, std::numeric_limits<std::int64_t>::max()});
  f.object({"published", "a published result, shown beside the computed one"},
           [&](Fields& g) { published_fields(g, form.published); });
}

}  // namespace meshweave
