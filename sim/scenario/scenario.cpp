#include "sim/scenario/scenario.h"

#include "sim/base/error.h"

namespace meshweave {

std::string_view name_of(DType type) {
  switch (type) {
    case DType::bf16: return "bf16";
    case DType::fp16: return "fp16";
    case DType::fp32: return "fp32";
    case DType::fp8: return "fp8";
    case DType::int64: return "int64";
    case DType::uint8: return "uint8";
  }
  bug("unknown data type");
}

std::string_view name_of(Recompute recompute) {
  switch (recompute) {
    case Recompute::none: return "none";
    case Recompute::selective: return "selective";
    case Recompute::full: return "full";
  }
  bug("unknown recompute mode");
}

std::string_view name_of(Partition partition) {
  switch (partition) {
    case Partition::zigzag: return "zigzag";
    case Partition::contiguous: return "contiguous";
  }
  bug("unknown partition");
}

std::string_view name_of(ContextKind kind) {
  switch (kind) {
    case ContextKind::ring: return "ring";
    case ContextKind::all_gather: return "all-gather";
    case ContextKind::ulysses: return "ulysses";
    case ContextKind::ulysses_ring: return "ulysses-ring";
  }
  bug("unknown kind of context parallelism");
}

std::string_view name_of(RingKind kind) {
  switch (kind) {
    case RingKind::plain: return "plain";
    case RingKind::striped: return "striped";
  }
  bug("unknown ring");
}

std::string_view name_of(Keep keep) {
  switch (keep) {
    case Keep::nothing: return "nothing";
    case Keep::keys_values: return "keys-values";
  }
  bug("unknown kept tensors");
}

std::string_view name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::gpipe: return "gpipe";
    case ScheduleKind::one_f_one_b: return "1f1b";
  }
  bug("unknown schedule");
}

std::string_view name_of(LossTokens tokens) {
  switch (tokens) {
    case LossTokens::all: return "all";
    case LossTokens::text: return "text";
  }
  bug("unknown tokens of a loss");
}

std::string_view name_of(Pass pass) {
  switch (pass) {
    case Pass::train: return "train";
    case Pass::forward: return "forward";
  }
  bug("unknown pass");
}

std::string_view name_of(MeshLinks links) {
  switch (links) {
    case MeshLinks::all: return "all-links";
    case MeshLinks::one: return "one-link";
  }
  bug("unknown use of mesh links");
}

std::string_view name_of(CostKind kind) {
  switch (kind) {
    case CostKind::model: return "model";
    case CostKind::fixed: return "fixed";
  }
  bug("unknown kind of cost");
}

void require_one_module(const Scenario& scenario) {
  if (num_vertices(scenario.model) == 1) return;
  Diagnostic diagnostic;
  diagnostic.file = scenario.file;
  diagnostic.pointer = "/model";
  diagnostic.message = "several modules are not simulated by this version yet";
  throw InputError({std::move(diagnostic)});
}

}  // namespace meshweave
