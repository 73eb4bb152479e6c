// A program: for every rank the list of tensor operations of one training step, in issue order.
//
// What is the same for many ops is stored once: an OpSpec (kind, attributes, shapes of its operands) serves every
// layer and micro-batch, a TensorSpec every tensor of one shape and name. A Body is the flat op list of all ranks
// that differ only in coordinates; offsets, groups and peers are functions of the rank's coordinates.
//
//   rank 5 ─ body_of_rank ─► Body 1: ops[0] = {spec 17, layer 3, micro-batch 0, operands → tensors → storages}
//                                                └► OpSpec 17: matmul "qkv" forward on stream "compute"
//
// Dependencies are not stored: sim/program/waits.h derives them. Costs are not stored either: sim/program/work.h
// derives FLOPs and bytes from the shapes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/transformer.h"
#include "sim/base/narrow.h"
#include "sim/layout/process_grid.h"
#include "sim/program/op_facts.h"
#include "sim/scenario/scenario.h"

namespace meshweave {

// What a storage's bytes are counted as.
enum class Category : std::uint8_t {
  parameters,
  main_gradients,
  optimizer_state,
  activations,
  boundary,       // received and sent stage inputs, outputs and their gradients
  communication,  // results of gathers and scatters
  workspace,      // gradients of activations and other transients of a backward
};
constexpr int category_count = 7;
std::string_view name_of(Category);

// A contiguous piece of device memory. Persistent storages (parameters, main gradients, optimizer state) live
// for the whole step and carry their content into the next; a transient storage holds exactly one tensor.
struct Storage {
  std::int64_t bytes = 0;
  Category category = Category::activations;
  bool persistent = false;
};

// Which part of a sharded dimension a rank holds. One that is not its own is a visitor.
struct HeldPart {
  enum class Of : std::uint8_t {
    rank,   // the part of the rank's own index
    owner,  // part `index`, on every rank
    ring,   // the part of the rank `index` places behind, cyclically: it came as many hops along the ring. The own
            // part, which visits first, came none
  };
  Of of = Of::rank;
  std::uint16_t index = 0;
  constexpr bool visits() const { return of != Of::rank; }
  bool operator==(const HeldPart&) const = default;
};
constexpr HeldPart part_of_owner(int owner) { return {HeldPart::Of::owner, narrow<std::uint16_t>(owner, "owner")}; }
constexpr HeldPart part_after_hops(int hops) { return {HeldPart::Of::ring, narrow<std::uint16_t>(hops, "hops")}; }

// Local extent of one dimension, and the axes that shard the global one. Of the axes of a sequence (dimension 0) tp is
// the minor one, of those of features the major one; the others are major by their number.
struct Dimension {
  std::int64_t size = 1;
  AxisMask sharded_over = 0;
  // A rank sums over all visitors by itself: a contraction with one is no partial sum over the ranks.
  HeldPart held{};
  // Rows are in zigzag order over this many parts: of 2n segments of the sequence part p holds p and 2n − 1 − p. 0: in
  // the order of the sequence.
  std::uint16_t zigzag = 0;
  bool operator==(const Dimension&) const = default;
};
// The axes over which a contraction with this dimension leaves a partial sum.
constexpr AxisMask contracted_axes(const Dimension& d) { return d.held.visits() ? AxisMask{0} : d.sharded_over; }

constexpr int max_dimensions = 4;

// What executors make or look at by itself; everything else is known by what reads and writes it.
enum class Content : std::uint8_t {
  other,
  token_ids,     // of the samples of a micro-batch
  labels,        // the token behind each
  loss,          // of the step
  squared_norm,  // of all gradients
};

// Name, local shape and dtype of a tensor, and the axes over which its value is still a partial sum. Activations
// are [sequence, batch, features…]; a gradient is named "d(NAME)", a main gradient "grad(NAME)".
struct TensorSpec {
  std::string name;
  std::array<Dimension, max_dimensions> dimensions{};
  std::uint8_t rank = 0;  // used dimensions
  // Dimension 0 is made of this many equal runs of rows, evenly apart in the whole tensor: a piece of a gathered
  // sequence has a run of every rank's share. Offsets count in the order of the pieces, in which each is contiguous.
  std::uint32_t runs = 1;
  DType dtype = DType::bf16;
  Content content = Content::other;
  AxisMask partial = 0;
  std::uint16_t grid = 0;  // index into Program::grids: whose coordinates shard it
  // Local rows of each part where dimension 0 packs several that are sharded one by one: a rank's rows of the qkv
  // weight are those of its q heads, then its k and its v heads. All 0: one part.
  std::array<std::int64_t, 3> packed{};
  bool operator==(const TensorSpec&) const = default;

  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dimensions[static_cast<std::size_t>(i)].size;
    return n;
  }
  std::int64_t bytes() const { return elements() * bytes_of(dtype); }
};

constexpr std::uint16_t no_shard = 0xffff;

// A view of a storage. The view starts at offset + index·bytes, where index is the rank's position along the pattern
// `shard`: the shard of a flat buffer that belongs to a rank of the data-parallel group, or the rank's share of what
// another module made.
struct Tensor {
  std::uint32_t spec = 0;
  std::uint32_t storage = 0;
  std::int64_t offset = 0;
  std::int16_t layer = -1;         // global layer; −1 outside layers
  std::int16_t micro_batch = -1;   // −1 for persistent tensors
  std::uint16_t shard = no_shard;  // index into Program::shards
};

enum class MatmulForm : std::uint8_t { forward, data_gradient, weight_gradient };
// Unfused attention: scores = q·kᵀ, context = p·v, and their four gradients.
enum class BatchedForm : std::uint8_t { scores, context, d_probabilities, d_value, d_query, d_key };
enum class ReduceOp : std::uint8_t { sum, max };

// What an op belongs to; also what the timeline colours.
enum class Phase : std::uint8_t {
  forward,
  backward_data,
  backward_weight,
  recompute,        // re-emitted forward
  gradient_reduce,  // sums of gradients over ranks after the last micro-batch
  optimizer,
  parameter_gather,
};
constexpr int phase_count = 7;
std::string_view name_of(Phase);

struct OpAttributes {
  MatmulForm matmul = MatmulForm::forward;
  BatchedForm batched = BatchedForm::scores;
  ReduceOp reduce = ReduceOp::sum;
  Activation activation = Activation::gelu;
  Norm norm = Norm::layer_norm;
  AttentionMask mask = AttentionMask::causal;
  bool bias = false;           // matmul, residual_add: the last operand read is a bias
  bool accumulates = false;    // the results are added to the written operands, which are read behind all others
  std::uint8_t dimension = 0;  // all_gather, reduce_scatter, all_to_all, slice, concat: the dimension that changes
  std::uint8_t joined = 0;     // all_to_all: the dimension that grows
  std::int16_t root = 0;       // reduce, broadcast: position of the root in the group
  std::uint16_t stripes = 1;   // point_to_point: rings of one message each over a node's mesh that the batch stands
                               // for, every one on a link of its own with 1/stripes of the bytes; equal at both ends
  double dropout = 0;
  double visible = -1;  // attention: share of the (query, key) pairs that the mask shows; < 0: the mask's own
  double scale = 1;     // cross entropy: 1 / global token count; attention: softmax scale
  double limit = 0;     // clip: largest norm
  AdamSettings adam;
  bool operator==(const OpAttributes&) const = default;
};

constexpr std::uint16_t no_group = 0xffff;

// The static part of an op, shared by all its occurrences. `reads` and `writes` are TensorSpec indices in operand
// order. A group (an index into Program::groups) belongs to collectives only.
struct OpSpec {
  OpKind kind = OpKind::fill;
  Phase phase = Phase::forward;
  std::uint8_t stream = 0;  // index into Program::streams
  std::uint8_t module = 0;  // vertex of the module graph
  std::uint16_t group = no_group;
  bool sync = false;       // holds the host until it ends
  bool same_call = false;  // issued by the host call of an op before it, at no cost of its own: a later piece
  OpAttributes attributes;
  std::string label;  // what it computes: "qkv", "attention", "fc1 gather", …
  std::vector<std::uint32_t> reads;
  std::vector<std::uint32_t> writes;
  bool operator==(const OpSpec&) const = default;
};

struct Op {
  std::uint32_t spec = 0;
  std::uint32_t first_operand = 0;  // into Body::operands: reads, then writes, as many as the spec says
  std::uint32_t first_message = 0;  // point_to_point only: into Body::messages
  std::uint16_t message_count = 0;
  std::int16_t layer = -1;        // global layer; −1 outside layers
  std::int16_t micro_batch = -1;  // −1 outside micro-batches
  std::int16_t chunk = -1;        // virtual stage of this rank; −1 outside stages
};

// One end of a transfer. Messages match by (pair of ranks, tag); the order per ordered pair is the same at both
// ends. `tensor` is the sent or received tensor.
struct Message {
  bool send = false;
  std::uint8_t peer = 0;  // index into Program::peers
  std::uint64_t tag = 0;  // see message_tag() and ring_tag()
  std::uint32_t tensor = 0;
};
// Between the stages of module `module`'s pipeline; `stage`: the virtual stage that sends forward or receives backward.
constexpr std::uint64_t message_tag(int module, int stage, int micro_batch, bool backward) {
  return static_cast<std::uint64_t>(module) << 32 | static_cast<std::uint64_t>(micro_batch) << 12 |
         static_cast<std::uint64_t>(stage) << 1 | static_cast<std::uint64_t>(backward);
}
// Along a ring of the module: `op` is the how-manieth of its block, `operand` of the op.
constexpr std::uint64_t ring_tag(int module, int layer, int micro_batch, std::size_t op, std::size_t operand) {
  return std::uint64_t{1} << 62 | static_cast<std::uint64_t>(module) << 56 |
         static_cast<std::uint64_t>(micro_batch) << 40 | static_cast<std::uint64_t>(layer + 1) << 24 |
         static_cast<std::uint64_t>(op) << 4 | operand;
}

enum class StreamKind : std::uint8_t { compute, tensor, pipeline, data, boundary, copy_out, copy_in };
std::string_view name_of(StreamKind);
// What the communications of a stream are for.
enum class Purpose : std::uint8_t {
  tensor,    // activations of tensor parallelism
  context,   // keys, values and heads between shards of the sequence
  weights,   // visiting weights of tsp and their gradients
  pipeline,  // activations between stages
  data,      // gradients and parameters
  none,      // no communication
};
std::string_view name_of(Purpose);

struct Stream {
  std::string name;
  StreamKind kind = StreamKind::compute;
  Purpose purpose = Purpose::none;
};

// The members of a rank's group follow from its coordinates in grid `grid` (ProcessGrid::group).
struct Group {
  std::string name;  // "tp", "dp", "embedding", …
  std::uint16_t grid = 0;
  std::vector<AxisPattern> patterns;
  bool operator==(const Group&) const = default;
  AxisMask axes() const {
    AxisMask m = 0;
    for (const AxisPattern& p : patterns) m = static_cast<AxisMask>(m | mask_of(p.axis));
    return m;
  }
};

// Where a message goes: for every rank the one at the other end.
struct Peer {
  std::string name;                   // "pp+1"
  AxisMask along = 0;                 // axes of a ring: a partial sum that travels along them is whole at its end
  std::vector<std::int32_t> rank_of;  // by rank; no_rank, or beyond the end: none
  bool operator==(const Peer&) const = default;
};
constexpr std::int32_t no_rank = -1;
// The rank whose coordinate along `axis` is `delta` further, cyclically; named "cp-1".
Peer peer_along(const ProcessGrid& grid, Axis axis, int delta);

// A rank's position among those that hold equal parts of a storage side by side: its index along the patterns in grid
// `grid`, the first of which varies fastest.
struct ShardPattern {
  std::uint16_t grid = 0;
  std::vector<AxisPattern> patterns;
  bool operator==(const ShardPattern&) const = default;
  std::int64_t parts() const {
    std::int64_t n = 1;
    for (const AxisPattern& p : patterns) n *= p.count;
    return n;
  }
};

// A parameter of a body: its weight and, in training, its main gradient, as views of flat buckets.
struct ParameterViews {
  std::uint32_t weight = 0;
  std::uint32_t gradient = 0;
  std::uint8_t module = 0;  // vertex of the module graph
};

struct Body {
  std::string name;  // "stage 0", for people
  std::vector<Storage> storages;
  std::vector<Tensor> tensors;
  std::vector<std::uint32_t> operands;
  std::vector<Op> ops;
  std::vector<Message> messages;
  std::vector<ParameterViews> parameters;
};

struct Program {
  std::vector<Stream> streams;  // stream 0 is the compute stream
  std::vector<ProcessGrid> grids;
  std::vector<std::uint16_t> grid_of_module;  // by vertex of the module graph
  std::vector<Group> groups;
  std::vector<Peer> peers;
  std::vector<ShardPattern> shards;
  std::vector<TensorSpec> tensor_specs;
  std::vector<OpSpec> op_specs;
  std::vector<Body> bodies;
  std::vector<std::uint32_t> body_of_rank;

  int ranks() const { return static_cast<int>(body_of_rank.size()); }
  const ProcessGrid& module_grid(std::size_t module) const { return grids[grid_of_module[module]]; }
  const OpSpec& spec(const Op& op) const { return op_specs[op.spec]; }
  std::span<const std::uint32_t> reads(const Body& body, const Op& op) const {
    return {body.operands.data() + op.first_operand, spec(op).reads.size()};
  }
  std::span<const std::uint32_t> writes(const Body& body, const Op& op) const {
    return {body.operands.data() + op.first_operand + spec(op).reads.size(), spec(op).writes.size()};
  }
  std::span<const Message> messages(const Body& body, const Op& op) const {
    return {body.messages.data() + op.first_message, op.message_count};
  }
  const TensorSpec& tensor_spec(const Body& body, std::uint32_t tensor) const {
    return tensor_specs[body.tensors[tensor].spec];
  }
  // The rank that peer `peer` names, seen from `rank`; no_rank for none.
  int peer_rank(int rank, std::size_t peer) const {
    const std::vector<std::int32_t>& ranks = peers[peer].rank_of;
    return static_cast<std::size_t>(rank) < ranks.size() ? ranks[static_cast<std::size_t>(rank)] : no_rank;
  }
  // Bytes [first, last) of its storage that the tensor may occupy on any rank of the body.
  std::pair<std::int64_t, std::int64_t> byte_range(const Body& body, std::uint32_t tensor) const;
};

// Bytes that a sent message puts on the wire. Several messages of one op to one peer travel as one: the first carries
// the bytes of all, the others none.
std::int64_t wire_bytes(const Program& program, const Body& body, const Op& op, const Message& message);

}  // namespace meshweave
