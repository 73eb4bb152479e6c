#include "sim/emulate/emulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>

#include "sim/base/error.h"
#include "sim/execute/in_process_backend.h"

namespace meshweave {

namespace {

constexpr double gradient_floor = 1e-3;

double largest(const RowMatrix& m) { return m.size() == 0 ? 0 : m.cwiseAbs().maxCoeff(); }

// |a − b|, infinite where one is no number.
double distance(double a, double b) {
  const double d = std::abs(a - b);
  return std::isfinite(d) ? d : std::numeric_limits<double>::infinity();
}

// By body the last op that writes such a tensor, whole.
std::vector<std::uint32_t> last_writers(const Program& program, Content content) {
  std::vector<std::uint32_t> last;
  for (const Body& body : program.bodies) {
    std::uint32_t op = std::numeric_limits<std::uint32_t>::max();
    for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
      for (const std::uint32_t t : program.writes(body, body.ops[i])) {
        const TensorSpec& spec = program.tensor_spec(body, t);
        if (spec.content == content && spec.partial == 0) op = i;
      }
    }
    last.push_back(op);
  }
  return last;
}

template <class T>
class Comparison {
 public:
  Comparison(const EmulationInput& input, const ReferenceRun& reference, const InProcessBackend<T>& backend)
      : input_(input), program_(*input.program), reference_(reference), backend_(backend) {}

  std::vector<ParameterError> run() {
    std::map<ParameterKey, ParameterError> errors;
    for (const auto& [key, gradient] : reference_.gradients) {
      errors[key] = {key, 0, 0};
      compared_[key].resize(static_cast<std::size_t>(gradient.size()));
    }
    for (int rank = 0; rank < program_.ranks(); ++rank) compare(rank, errors);
    std::vector<ParameterError> result;
    for (auto& [key, e] : errors) {
      const std::vector<bool>& compared = compared_.at(key);
      // An element that no rank's optimizer owns stays as it was.
      if (std::find(compared.begin(), compared.end(), false) != compared.end()) {
        e.gradient = e.update = std::numeric_limits<double>::infinity();
      }
      const double scale =
          std::max({largest(reference_.gradients.at(key)), gradient_floor * reference_.largest_gradient, 1e-300});
      result.push_back({key, e.gradient / scale, e.update / scale});
    }
    return result;
  }

 private:
  // Largest differences of the elements that the rank's optimizer owns.
  void compare(int rank, std::map<ParameterKey, ParameterError>& errors) {
    const Body& body = program_.bodies[program_.body_of_rank[static_cast<std::size_t>(rank)]];
    for (const Op& op : body.ops) {
      if (program_.spec(op).kind != OpKind::adam) continue;
      const std::uint32_t gradient = program_.reads(body, op)[0];
      const std::vector<T> gradients = backend_.values(rank, gradient);
      const std::vector<T> parameters = backend_.values(rank, program_.writes(body, op).back());
      const std::int64_t first = first_element(body, rank, gradient);
      for (const ParameterViews& p : body.parameters) {
        if (body.tensors[p.gradient].storage != body.tensors[gradient].storage) continue;
        const Geometry at = geometry_of(program_, body, rank, p.weight);
        const ParameterKey key{body.tensors[p.weight].layer, at.spec->name};
        const std::int64_t start = first_element(body, rank, p.gradient);
        const std::int64_t from = std::max(start, first);
        const std::int64_t to =
            std::min(start + at.spec->elements(), first + static_cast<std::int64_t>(gradients.size()));
        for (std::int64_t e = from; e < to; ++e) {
          const auto own = static_cast<std::size_t>(e - first);
          compare_element(key, at, e - start, static_cast<double>(gradients[own]), static_cast<double>(parameters[own]),
                          errors.at(key));
        }
      }
    }
  }

  std::int64_t first_element(const Body& body, int rank, std::uint32_t tensor) const {
    const Geometry at = geometry_of(program_, body, rank, tensor);
    return at.offset / bytes_of(at.spec->dtype);
  }

  void compare_element(const ParameterKey& key, const Geometry& at, std::int64_t element, double gradient,
                       double parameter, ParameterError& error) {
    const std::int64_t index = at.whole_index(element);
    compared_.at(key)[static_cast<std::size_t>(index)] = true;
    const auto of = [&](const ParameterMap& map) { return map.at(key).data()[index]; };
    error.gradient = std::max(error.gradient, distance(gradient, of(reference_.gradients)));
    const double update = distance(parameter, of(reference_.parameters));
    const double rate = input_.scenario->optimizer.adam.learning_rate;
    if (rate > 0) error.update = std::max(error.update, update * of(reference_.divisors) / rate);
  }

  const EmulationInput& input_;
  const Program& program_;
  const ReferenceRun& reference_;
  const InProcessBackend<T>& backend_;
  std::map<ParameterKey, std::vector<bool>> compared_;  // by element of the whole parameter
};

template <class T>
EmulationReport emulate_as(const EmulationInput& input, const EmulationSettings& settings,
                           const ReferenceRun& reference) {
  const Program& program = *input.program;
  InProcessSettings memory;
  memory.seed = input.scenario->seed;
  memory.vocabulary = input.scenario->model[0].shape.vocabulary;
  memory.delay = settings.interpreter.order != InterpretOrder::issue;
  memory.delay_seed = settings.interpreter.seed;
  InProcessBackend<T> backend(program, *input.communicators, *input.liveness, memory);
  std::vector<int> ranks(static_cast<std::size_t>(program.ranks()));
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r] = static_cast<int>(r);
  const Interpreter interpreter(program, *input.waits, *input.liveness, ranks, backend);

  EmulationReport report;
  report.reference_loss = reference.loss;
  report.loss.assign(static_cast<std::size_t>(settings.steps), std::numeric_limits<double>::quiet_NaN());
  const std::vector<std::uint32_t> losses = last_writers(program, Content::loss);
  const std::vector<std::uint32_t> norms = last_writers(program, Content::squared_norm);
  std::int64_t norms_seen = 0;
  std::mutex mutex;
  const auto relative = [](double own, double expected) {
    return distance(own, expected) / std::max(std::abs(expected), 1e-30);
  };
  // Every rank that holds the loss, or the norm, must have the same.
  std::int64_t executions = 0;
  for (const std::uint32_t body : program.body_of_rank)
    executions += static_cast<std::int64_t>(program.bodies[body].ops.size()) * settings.steps;
  std::atomic<std::int64_t> executed = 0;
  const auto note = [&](const OpCall& call) {
    const std::int64_t now = ++executed;
    const std::int64_t percent = 100 * now / executions;
    if (settings.on_progress && percent > 100 * (now - 1) / executions)
      settings.on_progress(fmt::format("emulate: {} %", percent));
    const std::uint32_t body = program.body_of_rank[static_cast<std::size_t>(call.rank)];
    if (call.op != losses[body] && call.op != norms[body]) return;
    const std::uint32_t tensor = program.writes(program.bodies[body], program.bodies[body].ops[call.op])[0];
    const auto value = static_cast<double>(backend.values(call.rank, tensor)[0]);
    const std::lock_guard lock(mutex);
    const auto step = static_cast<std::size_t>(call.step);
    if (call.op == losses[body]) {
      report.loss_error = std::max(report.loss_error, relative(value, reference.loss[step]));
      report.loss[step] = value;
    } else {
      ++norms_seen;
      report.norm_error = std::max(report.norm_error, relative(std::sqrt(value), reference.norm[step]));
    }
  };
  report.run = interpreter.run(settings.steps, settings.interpreter, note);
  report.stuck = report.run.stuck;
  for (const double loss : report.loss) {
    if (!std::isfinite(loss)) report.loss_error = std::numeric_limits<double>::infinity();
  }
  if (makes_norm(*input.scenario) && norms_seen != std::int64_t{program.ranks()} * settings.steps) {
    report.norm_error = std::numeric_limits<double>::infinity();
  }
  if (input.scenario->pass == Pass::train && report.stuck.empty()) {
    report.parameters = Comparison<T>(input, reference, backend).run();
    for (const ParameterError& e : report.parameters) {
      report.gradient_error = std::max(report.gradient_error, e.gradient);
      report.update_error = std::max(report.update_error, e.update);
    }
  }
  const bool is_double = settings.precision == EmulationPrecision::double_precision;
  report.tolerance = is_double ? 1e-10 : 1e-4;
  report.updates_shown =
      input.scenario->pass == Pass::train && input.scenario->optimizer.adam.learning_rate >= least_learning_rate;
  report.updates_judged = is_double && report.updates_shown;
  report.matches = report.stuck.empty() && report.loss_error <= report.tolerance &&
                   report.gradient_error <= report.tolerance && report.norm_error <= report.tolerance &&
                   (!report.updates_judged || report.update_error <= report.tolerance);
  return report;
}

}  // namespace

std::string_view name_of(EmulationPrecision precision) {
  return precision == EmulationPrecision::single_precision ? "float" : "double";
}

bool makes_norm(const Scenario& scenario) { return scenario.pass == Pass::train && scenario.optimizer.clip > 0; }

ReferenceSettings reference_settings(const Scenario& scenario) {
  ensure(num_vertices(scenario.model) == 1, "the reference takes one module");
  ReferenceSettings r;
  r.shape = scenario.model[0].shape;
  r.vocabulary_rows = r.shape.padded_vocabulary(scenario.layout_by_module[0].weight_shards());
  r.samples = scenario.batch.global;
  r.train = scenario.pass == Pass::train;
  r.clip = scenario.optimizer.clip;
  r.adam = scenario.optimizer.adam;
  r.seed = scenario.seed;
  return r;
}

ReferenceRun run_reference(const Scenario& scenario, int steps,
                           const std::function<void(const std::string&)>& on_progress) {
  Reference reference(reference_settings(scenario));
  ReferenceRun run;
  for (int i = 0; i < steps; ++i) {
    if (on_progress) on_progress(fmt::format("reference: step {} of {}", i + 1, steps));
    run.loss.push_back(reference.step());
    run.norm.push_back(reference.gradient_norm());
    if (scenario.pass == Pass::forward) continue;
    for (const auto& [key, gradient] : reference.gradients())
      run.largest_gradient = std::max(run.largest_gradient, largest(gradient));
  }
  if (scenario.pass == Pass::forward) return run;
  run.parameters = reference.parameters();
  run.gradients = reference.gradients();
  for (const auto& [key, gradient] : run.gradients) run.divisors[key] = reference.adam_divisor(key);
  return run;
}

EmulationReport emulate(const EmulationInput& input, const EmulationSettings& settings, const ReferenceRun& reference) {
  return settings.precision == EmulationPrecision::double_precision ? emulate_as<double>(input, settings, reference)
                                                                    : emulate_as<float>(input, settings, reference);
}

EmulationReport emulate(const EmulationInput& input, const EmulationSettings& settings) {
  return emulate(input, settings, run_reference(*input.scenario, settings.steps, settings.on_progress));
}

}  // namespace meshweave
