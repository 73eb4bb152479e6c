#include "sim/emulate/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "sim/base/error.h"
#include "sim/execute/in_process_backend.h"

namespace meshweave {

namespace {

// Far above rounding in double, far below any wrong value.
constexpr double tolerance = 1e-7;
constexpr double gradient_floor = 1e-3;

// Everything that the reference makes in one step.
struct StepValues {
  std::map<std::tuple<int, std::string, std::int64_t>, RowMatrix> values;  // layer, name, sample
  std::set<std::pair<int, std::string>> names;
  std::map<std::pair<int, std::string>, double> largest;  // element of any sample
  double largest_activation_gradient = 0;
  ParameterMap before, after;    // parameters
  ParameterMap summed, clipped;  // gradients
  double norm = 0;
};

// "grad(fc1.weight)" → "fc1.weight"; empty for another name.
std::string parameter_of(const std::string& name) {
  return name.starts_with("grad(") ? name.substr(5, name.size() - 6) : std::string();
}

StepValues next_step(Reference& reference) {
  StepValues s;
  s.before = reference.parameters();
  for (const auto& [key, value] : s.before) s.summed[key] = RowMatrix::Zero(value.rows(), value.cols());
  reference.step([&](int layer, const std::string& name, std::int64_t sample, const RowMatrix& value) {
    s.values[{layer, name, sample}] = value;
    s.names.insert({layer, name});
    double& largest = s.largest[{layer, name}];
    largest = std::max(largest, value.cwiseAbs().maxCoeff());
    if (name.starts_with("d(")) s.largest_activation_gradient = std::max(s.largest_activation_gradient, largest);
    if (const std::size_t by = name.find(" by "); by != std::string::npos) {
      s.summed.at({layer, parameter_of(name.substr(0, by))}) += value;
    }
  });
  s.after = reference.parameters();
  s.clipped = reference.gradients();
  s.norm = reference.gradient_norm();
  return s;
}

class Diagnosis {
 public:
  Diagnosis(const EmulationInput& input, const EmulationSettings& settings)
      : input_(input), program_(*input.program), settings_(settings), reference_(reference_settings(*input.scenario)) {
    for (const std::uint32_t body : program_.body_of_rank)
      executions_of_step_ += static_cast<std::int64_t>(program_.bodies[body].ops.size());
    for (const auto& [key, gradient] : values(0).summed) {
      largest_gradient_ = std::max(largest_gradient_, gradient.cwiseAbs().maxCoeff());
    }
  }

  OpComparison run() {
    InProcessSettings memory;
    memory.seed = input_.scenario->seed;
    memory.vocabulary = shape().vocabulary;
    memory.delay = settings_.interpreter.order != InterpretOrder::issue;
    memory.delay_seed = settings_.interpreter.seed;
    backend_.emplace(program_, *input_.communicators, *input_.liveness, memory);
    std::vector<int> ranks(static_cast<std::size_t>(program_.ranks()));
    for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r] = static_cast<int>(r);
    InterpreterSettings interpreter = settings_.interpreter;
    interpreter.threads = 1;
    Interpreter(program_, *input_.waits, *input_.liveness, ranks, *backend_)
        .run(settings_.steps, interpreter, [this](const OpCall& call) {
          if (result_.wrong) return;
          look_at(call);
          if (++executed_[call.step] == executions_of_step_) forget(call.step);
        });
    return std::move(result_);
  }

 private:
  const TransformerShape& shape() const { return input_.scenario->model[0].shape; }
  const Body& body_of(int rank) const { return program_.bodies[program_.body_of_rank[static_cast<std::size_t>(rank)]]; }
  const StepValues& values(const OpCall& call) { return values(call.step); }
  const StepValues& values(int step) {
    while (reference_.steps() <= step) {
      const int next = reference_.steps();
      steps_.emplace(next, next_step(reference_));
    }
    return steps_.at(step);
  }

  // What all ranks have behind them.
  void forget(int step) {
    steps_.erase(step);
    executed_.erase(step);
    std::erase_if(sums_, [step](const auto& entry) { return std::get<0>(entry.first) == step; });
    std::erase_if(uses_, [step](const auto& entry) { return std::get<0>(entry.first) == step; });
  }

  bool is_root(int rank, const OpSpec& spec) const {
    const std::span<const int> members = members_of(rank, spec.group);
    return members[static_cast<std::size_t>(spec.attributes.root)] == rank;
  }
  std::span<const int> members_of(int rank, std::uint16_t group) const {
    const Communicators::Of& of = input_.communicators->by_group[group];
    return of.of(of.instance_of[static_cast<std::size_t>(rank)]);
  }

  void look_at(const OpCall& call) {
    const Body& body = body_of(call.rank);
    const Op& op = body.ops[call.op];
    const OpSpec& spec = program_.spec(op);
    for (const std::uint32_t tensor : program_.writes(body, op)) {
      if (result_.wrong) return;
      const TensorSpec& t = program_.tensor_spec(body, tensor);
      if (spec.kind == OpKind::reduce && !is_root(call.rank, spec)) continue;  // written elsewhere
      const Category category = body.storages[body.tensors[tensor].storage].category;
      if (spec.phase == Phase::backward_weight && category == Category::main_gradients) {
        main_gradient(call, spec, tensor);
      } else if (spec.kind == OpKind::clip) {
        bucket(call, tensor, values(call).clipped, true);
      } else if (spec.kind == OpKind::adam && t.partial == 0 && category == Category::parameters) {
        // What is right but for rounding becomes the reference's: no step inherits the rounding of another.
        const std::vector<double> right = bucket(call, tensor, values(call).after, false);
        if (result_.wrong) return;
        backend_->set_values(call.rank, tensor, right);
        backend_->set_values(call.rank, program_.writes(body, op)[0], right);  // main parameters
      } else if (spec.phase == Phase::parameter_gather) {
        const bool next = input_.scenario->overlap.param_gather;
        bucket(call, tensor, next ? values(call).before : values(call).after, false);
      } else if (spec.phase == Phase::gradient_reduce && t.partial == 0 && t.content != Content::loss) {
        bucket(call, tensor, values(call).summed, true);
      } else if (t.content == Content::squared_norm && t.partial == 0) {
        const double norm2 = values(call).norm * values(call).norm;
        const double off = std::abs(static_cast<double>(backend_->values(call.rank, tensor)[0]) - norm2);
        judge(call, tensor, off, norm2);
      } else if (body.tensors[tensor].micro_batch >= 0 &&
                 values(call).names.contains({body.tensors[tensor].layer, t.name})) {
        activation(call, tensor);
      }
    }
  }

  // --- activations
  // ------------------------------------------------------------------------------------------------

  void activation(const OpCall& call, std::uint32_t tensor) {
    const TensorSpec& spec = program_.tensor_spec(body_of(call.rank), tensor);
    if (spec.partial == 0) return compare_activation(call, tensor, backend_->values(call.rank, tensor));
    if (const std::optional<std::vector<double>> sum = sum_of_partials(call, tensor, spec.partial)) {
      compare_activation(call, tensor, *sum);
    }
  }

  // The sum over the ranks of a partial sum, when the last of them has made it.
  std::optional<std::vector<double>> sum_of_partials(const OpCall& call, std::uint32_t tensor, AxisMask partial) {
    const ProcessGrid& grid = program_.grids[program_.tensor_spec(body_of(call.rank), tensor).grid];
    Coordinates at = grid.coordinates(call.rank);
    int members = 1;
    for (std::size_t a = 0; a < axis_count; ++a) {
      if ((partial & mask_of(static_cast<Axis>(a))) == 0) continue;
      members *= grid.degree(static_cast<Axis>(a));
      at[a] = 0;
    }
    Sum& sum = sums_[{call.step, grid.rank(at), call.op, tensor}];
    const std::vector<double> own = backend_->values(call.rank, tensor);
    sum.values.resize(own.size(), 0);
    for (std::size_t e = 0; e < own.size(); ++e) sum.values[e] += own[e];
    if (++sum.members < members) return std::nullopt;
    return std::move(sum.values);
  }

  void compare_activation(const OpCall& call, std::uint32_t tensor, const std::vector<double>& own) {
    const Body& body = body_of(call.rank);
    const Geometry at = geometry_of(program_, body, call.rank, tensor);
    const Tensor& t = body.tensors[tensor];
    const std::int64_t batch = at.spec->dimensions[1].size;
    const auto features = static_cast<std::int64_t>(own.size()) / (at.spec->dimensions[0].size * batch);
    double off = 0;
    for (std::size_t e = 0; e < own.size(); ++e) {
      const auto element = static_cast<std::int64_t>(e);
      const std::int64_t token = element / features;
      const std::int64_t sample = t.micro_batch * at.whole[1] + at.start[1] + token % batch;
      const RowMatrix& expected = values(call).values.at({t.layer, at.spec->name, sample});
      off = std::max(off,
                     difference(own[e], expected(at.whole_row(token / batch), whole_feature(at, element % features))));
    }
    // Some gradients are zero in truth, as those of q and k behind a softmax that is saturated.
    const double floor =
        at.spec->name.starts_with("d(") ? gradient_floor * values(call).largest_activation_gradient : 0;
    judge(call, tensor, off, std::max(values(call).largest.at({t.layer, at.spec->name}), floor));
  }

  // The index of a local feature among all: trailing dimensions are row-major; a gated fc1 has two sharded
  // halves.
  std::int64_t whole_feature(const Geometry& at, std::int64_t feature) const {
    if (shape().gated() && at.spec->name.find("fc1") != std::string::npos) {
      const std::int64_t half = at.spec->dimensions[2].size / 2;
      const std::int64_t shard = at.start[2] / (2 * half);
      return (feature < half ? 0 : shape().ffn) + shard * half + feature % half;
    }
    std::int64_t index = 0;
    std::int64_t factor = 1;
    for (std::size_t d = at.spec->rank; d-- > 2;) {
      index += (at.start[d] + feature % at.spec->dimensions[d].size) * factor;
      factor *= at.whole[d];
      feature /= at.spec->dimensions[d].size;
    }
    return index;
  }

  // --- parameters
  // -------------------------------------------------------------------------------------------------

  // The use in the reference of a parameter whose gradient arrives at its owner: tables name it, other parameters have
  // one, "fc1" of "grad(fc1.weight)" and "fc1 bias" of "grad(fc1.bias)".
  static std::string use_of_arriving(const std::string& gradient, const std::string& label) {
    if (const std::size_t table = label.find(" table"); table != std::string::npos) return label.substr(0, table);
    const std::string parameter = parameter_of(gradient);
    const std::size_t dot = parameter.find('.');
    return parameter.substr(0, dot) + (parameter.substr(dot) == ".bias" ? " bias" : "");
  }

  void main_gradient(const OpCall& call, const OpSpec& op, std::uint32_t tensor) {
    const Body& body = body_of(call.rank);
    const Op& where = body.ops[call.op];
    const Tensor& t = body.tensors[tensor];
    const TensorSpec& spec = program_.tensor_spec(body, tensor);
    // What the rank's gradient should hold: each use of each micro-batch once.
    std::set<std::pair<std::string, int>>& uses = uses_[{call.step, call.rank, tensor}];
    uses.insert({is_communication(op.kind) ? use_of_arriving(spec.name, op.label) : op.label, where.micro_batch});
    // The stages of a tied table have contributions of their own.
    const AxisMask partial = static_cast<AxisMask>(spec.partial & ~mask_of(Axis::pp));
    const std::optional<std::vector<double>> sum = sum_of_partials(call, tensor, partial);
    if (!sum) return;
    const Geometry at = geometry_of(program_, body, call.rank, tensor);
    const ParameterKey key{t.layer, parameter_of(spec.name)};
    RowMatrix expected = RowMatrix::Zero(values(call).summed.at(key).rows(), values(call).summed.at(key).cols());
    const std::int64_t per_micro_batch = input_.scenario->batch.micro * input_.scenario->layout_by_module[0].dp;
    for (const auto& [use, micro_batch] : uses) {
      for (std::int64_t s = micro_batch * per_micro_batch; s < (micro_batch + 1) * per_micro_batch; ++s) {
        const auto found = values(call).values.find({t.layer, spec.name + " by " + use, s});
        if (found != values(call).values.end()) expected += found->second;
      }
    }
    double off = 0;
    for (std::size_t e = 0; e < sum->size(); ++e) {
      off = std::max(off, difference((*sum)[e], expected.data()[at.whole_index(static_cast<std::int64_t>(e))]));
    }
    judge(call, tensor, off, std::max(expected.cwiseAbs().maxCoeff(), gradient_floor * largest_gradient_));
  }

  // A flat bucket, or a shard of it, holds the elements of the parameters that it overlaps. Returns the
  // bucket as the reference has it, where no element is wrong.
  std::vector<double> bucket(const OpCall& call, std::uint32_t tensor, const ParameterMap& expected,
                             bool of_gradients) {
    const Body& body = body_of(call.rank);
    const auto first_of = [&](std::uint32_t view) {
      const Geometry at = geometry_of(program_, body, call.rank, view);
      return at.offset / bytes_of(at.spec->dtype);
    };
    std::vector<double> own = backend_->values(call.rank, tensor);
    const std::int64_t first = first_of(tensor);
    for (const ParameterViews& p : body.parameters) {
      const std::uint32_t view = of_gradients ? p.gradient : p.weight;
      if (body.tensors[view].storage != body.tensors[tensor].storage) continue;
      const Geometry at = geometry_of(program_, body, call.rank, view);
      const ParameterKey key{body.tensors[p.weight].layer, program_.tensor_spec(body, p.weight).name};
      const RowMatrix& whole = expected.at(key);
      const std::int64_t start = first_of(view);
      const std::int64_t from = std::max(start, first);
      const std::int64_t to = std::min(start + at.spec->elements(), first + static_cast<std::int64_t>(own.size()));
      double off = 0;
      for (std::int64_t e = from; e < to; ++e) {
        double& value = own[static_cast<std::size_t>(e - first)];
        const double right = whole.data()[at.whole_index(e - start)];
        off = std::max(off, difference(value, right));
        value = right;
      }
      const double floor = of_gradients ? gradient_floor * largest_gradient_ : 0;
      judge(call, tensor, off, std::max(whole.cwiseAbs().maxCoeff(), floor));
      if (result_.wrong) break;
    }
    return own;
  }

  // --- verdict
  // ----------------------------------------------------------------------------------------------------

  static double difference(double a, double b) {
    const double d = std::abs(a - b);
    return std::isfinite(d) ? d : INFINITY;
  }

  void judge(const OpCall& call, std::uint32_t tensor, double off, double scale) {
    if (result_.wrong) return;
    scale = std::max(scale, 1e-300);
    result_.largest = std::max(result_.largest, off / scale);
    if (off <= tolerance * scale) return;
    const Body& body = body_of(call.rank);
    const Op& op = body.ops[call.op];
    const OpSpec& spec = program_.spec(op);
    const Tensor& t = body.tensors[tensor];
    std::string where = fmt::format("rank {}: op {}, {} \"{}\", {}", call.rank, call.op, name_of(spec.kind), spec.label,
                                    name_of(spec.phase));
    where += fmt::format(", module {}", input_.scenario->model[spec.module].name);
    if (op.layer >= 0) where += fmt::format(", layer {}", op.layer);
    if (op.micro_batch >= 0) where += fmt::format(", micro-batch {}", op.micro_batch);
    if (settings_.steps > 1) where += fmt::format(", step {}", call.step);
    const TensorSpec& written = program_.tensor_specs[t.spec];
    where += fmt::format(": {}{} is off by {:.3g} where the largest is {:.3g}", written.name,
                         written.partial != 0 ? " (summed over " + names_of(written.partial) + ")" : "", off, scale);
    result_.wrong = WrongOp{call.rank, call.step, call.op, std::move(where)};
  }

  struct Sum {
    std::vector<double> values;
    int members = 0;
  };

  const EmulationInput& input_;
  const Program& program_;
  const EmulationSettings& settings_;
  Reference reference_;
  std::map<int, StepValues> steps_;       // of the reference, those under way
  std::map<int, std::int64_t> executed_;  // ops, of the same
  std::int64_t executions_of_step_ = 0;
  double largest_gradient_ = 0;
  std::optional<InProcessBackend<double>> backend_;
  std::map<std::tuple<int, int, std::uint32_t, std::uint32_t>, Sum> sums_;  // step, first rank of the sum, op, tensor
  std::map<std::tuple<int, int, std::uint32_t>, std::set<std::pair<std::string, int>>> uses_;  // step, rank, tensor
  OpComparison result_;
};

}  // namespace

OpComparison compare_ops(const EmulationInput& input, const EmulationSettings& settings) {
  return Diagnosis(input, settings).run();
}

std::optional<WrongOp> first_wrong_op(const EmulationInput& input, const EmulationSettings& settings) {
  return compare_ops(input, settings).wrong;
}

std::string_view name_of(EmulationVerdict verdict) {
  switch (verdict) {
    case EmulationVerdict::matches: return "matches";
    case EmulationVerdict::rounding: return "rounding";
    case EmulationVerdict::differs: return "differs";
  }
  return "";
}

EmulationJudgement judge(const EmulationInput& input, const EmulationSettings& settings,
                         const EmulationReport& report) {
  EmulationJudgement judgement;
  if (report.matches) return judgement;
  judgement.verdict = EmulationVerdict::differs;
  if (settings.on_progress) settings.on_progress("look for the first wrong value");
  judgement.ops = compare_ops(input, settings);
  // Without updates, no step hands its rounding to the next one.
  const bool amplifies = input.scenario->pass == Pass::train && settings.steps > 2;
  if (judgement.ops->wrong || !report.stuck.empty() || !amplifies) return judgement;
  EmulationSettings two = settings;
  two.steps = 2;
  judgement.two_steps = emulate(input, two);
  if (judgement.two_steps->matches) judgement.verdict = EmulationVerdict::rounding;
  return judgement;
}

}  // namespace meshweave
