#include "sim/trace/trace_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "sim/base/atomic_file.h"
#include "sim/base/error.h"
#include "sim/base/json_text.h"
#include "sim/base/text.h"

namespace meshweave {
namespace {

constexpr int format_version = 1;

// Text that is handed on in large pieces.
class Output {
 public:
  explicit Output(const std::function<void(std::string_view)>& sink) : sink_(sink) {}

  std::string& text() { return text_; }
  template <class... Arguments>
  void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }
  void flush_if_large() {
    if (text_.size() >= (1u << 20)) flush();
  }
  void flush() {
    sink_(text_);
    text_.clear();
  }

 private:
  const std::function<void(std::string_view)>& sink_;
  std::string text_;
};

// Nanoseconds as decimals of a microsecond: 1234 is "1.234".
void print_microseconds(Output& out, std::int64_t nanoseconds) {
  if (nanoseconds < 0) {
    out.text() += '-';
    nanoseconds = -nanoseconds;
  }
  out.print("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// Everything but the events: what a reader needs before the first slice.
void print_tables(Output& out, const Trace& trace) {
  JsonText j;
  j.object();
  j.field("format", format_version);
  const TraceProvenance& from = trace.provenance;
  j.key("provenance"), j.object();
  j.field("tool", from.tool);
  j.field("executor", from.executor);
  j.field("name", from.name);
  j.field("scenario", from.scenario);
  j.field("seed", from.seed);
  j.key("inputs"), j.object();
  for (const auto& [file, hash] : from.inputs) j.field(file, hash);
  j.end();
  if (!from.resolved.empty()) j.key("resolved"), j.raw(from.resolved);
  if (from.emulation) {
    j.key("emulation"), j.object();
    j.field("model_scale", from.emulation->model_scale), j.field("precision", from.emulation->precision);
    j.field("steps", from.emulation->steps);
    j.end();
  }
  j.field("left_out", from.left_out);
  j.end();
  j.field("step_begin_ns", floor_nanoseconds(trace.step_begin));
  j.field("step_end_ns", floor_nanoseconds(trace.step_end));
  j.key("streams"), j.array();
  for (const TraceStream& s : trace.streams) j.object(), j.field("name", s.name), j.field("kind", s.kind), j.end();
  j.end();
  j.key("ranks"), j.array();
  for (const TraceRank& r : trace.ranks) {
    j.object(), j.field("rank", r.rank), j.field("label", r.label), j.field("stands_for", r.stands_for), j.end();
  }
  j.end();
  j.key("ops"), j.array();
  for (const TraceOp& op : trace.ops) {
    j.object();
    j.field("label", op.label), j.field("kind", op.kind), j.field("phase", op.phase), j.field("module", op.module);
    if (!op.group.empty()) j.field("group", op.group);
    j.field("shapes", op.shapes), j.field("flops", op.flops), j.field("bytes", op.bytes);
    j.field("cost", op.cost), j.field("source", op.source);
    j.end();
  }
  j.end();
  j.key("links"), j.array();
  for (const TraceLink& link : trace.links) {
    j.object(), j.field("link", link.link), j.field("bytes", link.bytes);
    j.field("bytes_per_s", link.bytes_per_s), j.end();
  }
  j.end();
  j.key("memory_categories"), j.array();
  for (const std::string& category : trace.memory_categories) j.string(category);
  j.end();
  j.end();
  out.text() += j.text();
}

void print_names(Output& out, const Trace& trace) {
  bool first = true;
  const auto meta = [&](std::string_view what, int pid, std::size_t tid, std::string_view argument) {
    out.print("{}\n{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{{}}}}}", first ? "" : ",", what, pid,
              tid, argument);
    first = false;
  };
  std::vector<std::vector<bool>> used(trace.ranks.size(), std::vector<bool>(trace.streams.size()));
  for (const TraceSlice& s : trace.slices) used[s.rank][s.stream] = true;
  for (std::size_t i = 0; i < trace.ranks.size(); ++i) {
    const TraceRank& rank = trace.ranks[i];
    std::string name = fmt::format("rank {}", rank.rank);
    if (!rank.label.empty()) name += fmt::format(" [{}]", rank.label);
    if (rank.stands_for > 1) name += ", like " + count_text(rank.stands_for - 1, "other");
    meta("process_name", rank.rank, 0, fmt::format("\"name\":{}", quoted(name)));
    meta("process_sort_index", rank.rank, 0, fmt::format("\"sort_index\":{}", i));
    for (std::size_t stream = 0; stream < trace.streams.size(); ++stream) {
      if (!used[i][stream]) continue;
      meta("thread_name", rank.rank, stream, fmt::format("\"name\":{}", quoted(trace.streams[stream].name)));
      meta("thread_sort_index", rank.rank, stream, fmt::format("\"sort_index\":{}", stream));
    }
  }
}

enum class EventKind : std::uint8_t { slice, flow_start, flow_end, memory };

struct Event {
  std::int64_t nanoseconds = 0;
  std::uint32_t index = 0;
  EventKind kind = EventKind::slice;
};

// The nanosecond at which a flow is drawn: both slices run then. Negative where they have none in common, as a
// viewer binds the ends of a flow to the slices around them.
std::int64_t flow_time(const Trace& trace, const TraceFlow& flow) {
  const TraceSlice& a = trace.slices[flow.from];
  const TraceSlice& b = trace.slices[flow.to];
  const std::int64_t time = floor_nanoseconds(std::max(a.start, b.start));
  return time < floor_nanoseconds(std::min(a.end, b.end)) ? time : -1;
}

// All events in ascending time; on ties slices come first and in issue order, then flows, then counters.
std::vector<Event> sorted_events(const Trace& trace) {
  std::vector<Event> events;
  events.reserve(trace.slices.size() + 2 * trace.flows.size() + trace.memory.size());
  const auto add = [&](std::int64_t time, std::size_t index, EventKind kind) {
    events.push_back({time, static_cast<std::uint32_t>(index), kind});
  };
  for (std::size_t i = 0; i < trace.slices.size(); ++i) {
    add(floor_nanoseconds(trace.slices[i].start), i, EventKind::slice);
  }
  for (std::size_t i = 0; i < trace.flows.size(); ++i) {
    const std::int64_t time = flow_time(trace, trace.flows[i]);
    if (time < 0) continue;
    add(time, i, EventKind::flow_start);
    add(time, i, EventKind::flow_end);
  }
  for (std::size_t i = 0; i < trace.memory.size(); ++i) {
    add(floor_nanoseconds(trace.memory[i].time), i, EventKind::memory);
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    if (a.nanoseconds != b.nanoseconds) return a.nanoseconds < b.nanoseconds;
    if (a.kind != b.kind) return a.kind < b.kind;
    return a.index < b.index;
  });
  return events;
}

class EventPrinter {
 public:
  EventPrinter(const Trace& trace, Output& out) : trace_(trace), out_(out) {
    for (const TraceOp& op : trace.ops) {
      heads_.push_back(fmt::format("\"name\":{},\"cat\":{}", quoted(slice_name(op)), quoted(op.phase + "," + op.kind)));
    }
    for (const std::string& category : trace.memory_categories) categories_.push_back(quoted(category));
  }

  void print(const Event& event) {
    out_.text() += ",\n";
    switch (event.kind) {
      case EventKind::slice: return slice(event.index);
      case EventKind::flow_start: return flow(event, true);
      case EventKind::flow_end: return flow(event, false);
      case EventKind::memory: return memory(event.index);
    }
  }

 private:
  void slice(std::uint32_t index) {
    const TraceSlice& s = trace_.slices[index];
    const std::int64_t start = floor_nanoseconds(s.start);
    out_.print("{{\"ph\":\"X\",{},\"pid\":{},\"tid\":{},\"ts\":", heads_[s.op], trace_.ranks[s.rank].rank, s.stream);
    print_microseconds(out_, start);
    out_.text() += ",\"dur\":";
    print_microseconds(out_, floor_nanoseconds(s.end) - start);
    out_.print(",\"args\":{{\"id\":{},\"op\":{}", index, s.op);
    if (s.layer >= 0) out_.print(",\"layer\":{}", s.layer);
    if (s.micro_batch >= 0) out_.print(",\"micro_batch\":{}", s.micro_batch);
    if (s.chunk >= 0) out_.print(",\"chunk\":{}", s.chunk);
    if (s.release != Release::none) out_.print(",\"release\":\"{}\"", name_of(s.release));
    if (s.cause != no_slice) out_.print(",\"cause\":{}", s.cause);
    if (s.previous_step) out_.text() += ",\"previous_step\":true";
    const std::int64_t transfer = floor_nanoseconds(s.transfer);
    if (transfer != start) {
      out_.text() += ",\"wait\":";
      print_microseconds(out_, transfer - start);
    }
    if (s.peer != no_slice) out_.print(",\"peer\":{}", s.peer);
    out_.text() += "}}";
  }

  void flow(const Event& event, bool start) {
    const TraceFlow& f = trace_.flows[event.index];
    const std::uint32_t index = start ? f.from : f.to;
    const TraceSlice& s = trace_.slices[index];
    out_.print("{{\"ph\":\"{}\",\"name\":\"flow\",\"cat\":\"communication\",\"id\":{},\"pid\":{},\"tid\":{},\"ts\":",
               start ? "s" : "f", event.index, trace_.ranks[s.rank].rank, s.stream);
    print_microseconds(out_, event.nanoseconds);
    if (!start) out_.text() += ",\"bp\":\"e\"";
    out_.print(",\"args\":{{\"slice\":{}}}}}", index);
  }

  void memory(std::uint32_t index) {
    const TraceMemory& m = trace_.memory[index];
    out_.print("{{\"ph\":\"C\",\"name\":\"memory\",\"pid\":{},\"ts\":", trace_.ranks[m.rank].rank);
    print_microseconds(out_, floor_nanoseconds(m.time));
    out_.text() += ",\"args\":{";
    for (std::size_t i = 0; i < categories_.size(); ++i) {
      out_.print("{}{}:{}", i == 0 ? "" : ",", categories_[i], trace_.memory_bytes[index * categories_.size() + i]);
    }
    out_.text() += "}}";
  }

  const Trace& trace_;
  Output& out_;
  std::vector<std::string> heads_;  // by op: the part of a slice that is the same for all its executions
  std::vector<std::string> categories_;
};

}  // namespace

void write_trace(const Trace& trace, const std::function<void(std::string_view)>& sink) {
  Output out(sink);
  out.text() += "{\"displayTimeUnit\":\"ns\",\n\"meshweave\":";
  print_tables(out, trace);
  out.text() += ",\n\"traceEvents\":[";
  print_names(out, trace);
  EventPrinter printer(trace, out);
  for (const Event& event : sorted_events(trace)) {
    printer.print(event);
    out.flush_if_large();
  }
  out.text() += "\n]}\n";
  out.flush();
}

void write_trace(const Trace& trace, const std::string& path, const InterruptFlag* interrupt) {
  std::optional<AtomicFile> file;  // opened when the first text is there, behind the sorting
  write_trace(trace, [&](std::string_view text) {
    check_interrupt(interrupt);
    if (!file) file.emplace(path);
    file->write(text);
  });
  check_interrupt(interrupt);
  file->commit();
}

}  // namespace meshweave
