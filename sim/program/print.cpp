#include "sim/program/print.h"

#include <fmt/format.h>

#include <iterator>

#include "sim/base/text.h"
#include "sim/program/waits.h"

namespace meshweave {
namespace {

// ", layer 3, micro-batch 0, chunk 1": what the op has of them. Chunk 0 goes without saying.
std::string place_of(const Op& op) {
  std::string out;
  if (op.layer >= 0) out += fmt::format(", layer {}", op.layer);
  if (op.micro_batch >= 0) out += fmt::format(", micro-batch {}", op.micro_batch);
  if (op.chunk > 0) out += fmt::format(", chunk {}", op.chunk);
  return out;
}

std::string shape_of(const TensorSpec& spec) {
  std::string out;
  for (std::size_t i = 0; i < spec.rank; ++i) out += fmt::format("{}{}", i == 0 ? "" : ",", spec.dimensions[i].size);
  if (spec.runs > 1) out += fmt::format(" in {} pieces", spec.runs);
  return out;
}

std::string count(std::size_t n, std::string_view noun) { return count_text(static_cast<std::int64_t>(n), noun); }

std::string group_text(const Group& group) {
  std::string out = group.name;
  for (const AxisPattern& p : group.patterns) {
    out += fmt::format(" {}×{}", name_of(p.axis), p.count);
    if (p.stride != 1) out += fmt::format(" stride {}", p.stride);
  }
  return out;
}

// "0-3, 8": the ranks of a body.
std::string ranks_of_body(const Program& program, std::uint32_t body) {
  std::string out;
  const std::vector<std::uint32_t>& bodies = program.body_of_rank;
  for (std::size_t first = 0; first < bodies.size(); ++first) {
    if (bodies[first] != body) continue;
    std::size_t last = first;
    while (last + 1 < bodies.size() && bodies[last + 1] == body) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", first);
    if (last > first) out += fmt::format("-{}", last);
    first = last;
  }
  return out.empty() ? "none" : out;
}

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  std::string take() { return fmt::to_string(out_); }

  void print_tables() {
    line("streams");
    for (std::size_t i = 0; i < program_.streams.size(); ++i) line("  {} {}", i, program_.streams[i].name);
    line("groups");
    for (std::size_t i = 0; i < program_.groups.size(); ++i) line("  {} {}", i, group_text(program_.groups[i]));
  }

  void print_body(std::uint32_t index) {
    const Body& body = program_.bodies[index];
    std::int64_t persistent = 0;
    for (const Storage& s : body.storages) persistent += s.persistent ? s.bytes : 0;
    line("body {} \"{}\", ranks {}: {}, {}, {}, {}", index, body.name, ranks_of_body(program_, index),
         count(body.ops.size(), "op"), count(body.tensors.size(), "tensor"), count(body.storages.size(), "storage"),
         count_text(persistent, "persistent byte"));
    const Waits waits = derive_waits(program_, body);
    for (std::size_t op = 0; op < body.ops.size(); ++op) print_op(body, waits, op);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_.push_back('\n');
  }

  void print_op(const Body& body, const Waits& waits, std::size_t index) {
    const Op& op = body.ops[index];
    const OpSpec& spec = program_.spec(op);
    std::string where = fmt::format(" on {}", program_.streams[spec.stream].name);
    if (spec.group != no_group) where += fmt::format(" over {}", program_.groups[spec.group].name);
    if (spec.attributes.stripes > 1) where += fmt::format(", in {} stripes", spec.attributes.stripes);
    if (spec.sync) where += ", holds the host";
    if (spec.same_call) where += ", of the same call";
    line("{}{}", describe_op(program_, body, index), where);
    print_operands(body, "reads", program_.reads(body, op));
    print_operands(body, "writes", program_.writes(body, op));
    for (const Message& m : program_.messages(body, op)) {
      line("    {} {} tag {}: {}", m.send ? "sends to" : "receives from", program_.peers[m.peer].name, m.tag,
           describe_tensor(program_, body, m.tensor));
    }
    for (const Wait& w : waits.of(index))
      line("    waits  op {}{}", w.op, w.previous_step ? " of the step before" : "");
  }

  void print_operands(const Body& body, std::string_view verb, std::span<const std::uint32_t> tensors) {
    for (const std::uint32_t t : tensors) line("    {:<6} {}", verb, describe_tensor(program_, body, t));
  }

  const Program& program_;
  fmt::memory_buffer out_;
};

}  // namespace

std::string describe_tensor(const Program& program, const Body& body, std::uint32_t tensor) {
  const Tensor& t = body.tensors[tensor];
  const TensorSpec& spec = program.tensor_specs[t.spec];
  std::string out = fmt::format("{}[{}] {}", spec.name, shape_of(spec), name_of(spec.dtype));
  if (t.layer >= 0) out += fmt::format(" layer {}", t.layer);
  if (t.micro_batch >= 0) out += fmt::format(" mb {}", t.micro_batch);
  if (spec.partial != 0) out += fmt::format(" partial {}", names_of(spec.partial));
  return out;
}

std::string describe_op(const Program& program, const Body& body, std::size_t op) {
  const OpSpec& spec = program.spec(body.ops[op]);
  std::string out = fmt::format("op {} {}", op, name_of(spec.kind));
  if (!spec.label.empty() && spec.label != name_of(spec.kind)) out += fmt::format(" {}", spec.label);
  return out + fmt::format(" {}", name_of(spec.phase)) + place_of(body.ops[op]);
}

std::string print_program(const Program& program, int body) {
  Printer printer(program);
  printer.print_tables();
  for (std::uint32_t b = 0; b < program.bodies.size(); ++b) {
    if (body < 0 || static_cast<std::uint32_t>(body) == b) printer.print_body(b);
  }
  return printer.take();
}

}  // namespace meshweave
