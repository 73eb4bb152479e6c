#include "sim/trace/trace_reader.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"

namespace meshweave {
namespace {

using Json = nlohmann::ordered_json;  // keeps the order of keys of the resolved scenario

std::string read_bytes(const std::string& path) {
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw IoError(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
  std::string bytes;
  std::string piece(1u << 20, '\0');
  int count = 0;
  while ((count = gzread(file, piece.data(), static_cast<unsigned>(piece.size()))) > 0) {
    bytes.append(piece, 0, static_cast<std::size_t>(count));
  }
  gzclose(file);
  if (count < 0) throw IoError(fmt::format("{}: cannot be read", path));
  return bytes;
}

// Builds the trace from JSON values as they are parsed, so that events need not be kept as JSON.
class TraceBuilder {
 public:
  void tables(const Json& j) {
    if (j.value("format", 0) != 1) throw InputError("format: must be 1");
    trace_.step_begin = from_nanoseconds(j.at("step_begin_ns").get<std::int64_t>());
    trace_.step_end = from_nanoseconds(j.at("step_end_ns").get<std::int64_t>());
    provenance(j.at("provenance"));
    for (const Json& s : j.at("streams")) trace_.streams.push_back({s.at("name"), s.at("kind")});
    for (const Json& r : j.at("ranks")) trace_.ranks.push_back({r.at("rank"), r.at("label"), r.at("stands_for")});
    for (const Json& o : j.at("ops")) {
      TraceOp op;
      op.label = o.at("label"), op.kind = o.at("kind"), op.phase = o.at("phase"), op.module = o.at("module");
      op.group = o.value("group", ""), op.shapes = o.at("shapes");
      op.flops = o.at("flops"), op.bytes = o.at("bytes"), op.cost = o.at("cost"), op.source = o.at("source");
      trace_.ops.push_back(std::move(op));
    }
    for (const Json& l : j.at("links")) trace_.links.push_back({l.at("link"), l.at("bytes"), l.at("bytes_per_s")});
    for (const Json& c : j.at("memory_categories")) trace_.memory_categories.push_back(c);
    for (std::size_t i = 0; i < trace_.ranks.size(); ++i) {
      rank_index_[trace_.ranks[i].rank] = static_cast<std::uint32_t>(i);
    }
    has_tables_ = true;
  }

  void event(const Json& e) {
    const std::string phase = e.at("ph");
    if (phase == "M") return;
    if (!has_tables_) throw InputError("the key \"meshweave\" must come before \"traceEvents\"");
    if (phase == "X") return slice(e);
    if (phase == "C") return memory(e);
    const std::uint32_t id = e.at("id");
    if (phase == "s") {
      flow_start_[id] = e.at("args").at("slice");
    } else if (phase == "f") {
      flow_end_[id] = e.at("args").at("slice");
    } else {
      throw InputError(fmt::format("an event of the unknown phase \"{}\"", phase));
    }
  }

  Trace take() {
    if (!has_tables_) throw InputError("the key \"meshweave\" is missing (a trace of another tool?)");
    const std::size_t count = trace_.slices.size();
    if (slices_ != count) throw InputError(fmt::format("{} of {} slices are missing", count - slices_, count));
    const auto check = [&](std::uint32_t slice, std::string_view what) {
      if (slice >= count) throw InputError(fmt::format("{} {} does not exist", what, slice));
    };
    for (const TraceSlice& s : trace_.slices) {
      if (s.cause != no_slice) {
        check(s.cause, "cause");
        if (trace_.slices[s.cause].rank != s.rank) throw InputError("the cause of a slice is on another rank");
      }
      if (s.peer != no_slice) check(s.peer, "peer");
    }
    for (const auto& [id, from] : flow_start_) {
      const auto to = flow_end_.find(id);
      if (to == flow_end_.end()) throw InputError(fmt::format("flow {} has no end", id));
      check(from, "slice");
      check(to->second, "slice");
      trace_.flows.push_back({from, to->second});
    }
    sort_memory();
    return std::move(trace_);
  }

 private:
  static Picoseconds from_nanoseconds(std::int64_t ns) { return Picoseconds{ns * 1000}; }
  static Picoseconds time(const Json& microseconds) {
    return from_nanoseconds(std::llround(microseconds.get<double>() * 1000));
  }

  void provenance(const Json& j) {
    TraceProvenance& p = trace_.provenance;
    p.tool = j.at("tool"), p.executor = j.at("executor"), p.name = j.at("name"), p.scenario = j.at("scenario");
    p.seed = j.at("seed"), p.left_out = j.at("left_out");
    for (const auto& [file, hash] : j.at("inputs").items()) p.inputs.emplace_back(file, hash.get<std::string>());
    if (j.contains("resolved")) p.resolved = j.at("resolved").dump();
    if (j.contains("emulation")) {
      const Json& e = j.at("emulation");
      p.emulation = TraceEmulation{e.at("model_scale"), e.at("precision"), e.at("steps").get<int>()};
    }
  }

  std::uint32_t rank_of(const Json& event) const {
    const auto found = rank_index_.find(event.at("pid").get<int>());
    if (found == rank_index_.end()) throw InputError("an event of a rank that is not in the table of ranks");
    return found->second;
  }

  void slice(const Json& e) {
    const Json& a = e.at("args");
    const std::size_t id = a.at("id").get<std::uint32_t>();
    TraceSlice s;
    s.rank = rank_of(e);
    s.stream = e.at("tid").get<std::uint8_t>();
    s.op = a.at("op");
    if (s.op >= trace_.ops.size()) throw InputError(fmt::format("slice {} has no op", id));
    if (s.stream >= trace_.streams.size()) throw InputError(fmt::format("slice {} has no stream", id));
    s.start = time(e.at("ts"));
    s.end = s.start + time(e.at("dur"));
    s.transfer = s.start;
    if (a.contains("wait")) s.transfer += time(a.at("wait"));
    s.layer = a.value("layer", std::int16_t{-1});
    s.micro_batch = a.value("micro_batch", std::int16_t{-1});
    s.chunk = a.value("chunk", std::int16_t{-1});
    s.cause = a.value("cause", no_slice);
    s.peer = a.value("peer", no_slice);
    s.previous_step = a.value("previous_step", false);
    s.release = release(a.value("release", "none"));
    if (id >= max_slices) throw InputError(fmt::format("slice {}: the number is too large", id));
    if (id >= trace_.slices.size()) {
      trace_.slices.resize(id + 1);
      known_.resize(id + 1);
    }
    if (known_[id]) throw InputError(fmt::format("slice {} occurs twice", id));
    known_[id] = true;
    trace_.slices[id] = s;
    ++slices_;
  }

  static Release release(const std::string& name) {
    for (const Release r : {Release::none, Release::stream, Release::wait, Release::host}) {
      if (name == name_of(r)) return r;
    }
    throw InputError(fmt::format("unknown release \"{}\"", name));
  }

  void memory(const Json& e) {
    trace_.memory.push_back({time(e.at("ts")), rank_of(e)});
    for (const std::string& category : trace_.memory_categories) {
      trace_.memory_bytes.push_back(e.at("args").at(category).get<std::int64_t>());
    }
  }

  // The file holds counters in the order of time; in the trace they stand by rank.
  void sort_memory() {
    const std::size_t categories = trace_.memory_categories.size();
    std::vector<std::uint32_t> order(trace_.memory.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return trace_.memory[a].rank < trace_.memory[b].rank; });
    std::vector<TraceMemory> samples;
    std::vector<std::int64_t> bytes;
    for (const std::uint32_t i : order) {
      samples.push_back(trace_.memory[i]);
      for (std::size_t c = 0; c < categories; ++c) bytes.push_back(trace_.memory_bytes[i * categories + c]);
    }
    trace_.memory = std::move(samples);
    trace_.memory_bytes = std::move(bytes);
  }

  static constexpr std::size_t max_slices = 200'000'000;

  Trace trace_;
  std::vector<bool> known_;
  std::size_t slices_ = 0;
  bool has_tables_ = false;
  std::map<int, std::uint32_t> rank_index_;
  std::map<std::uint32_t, std::uint32_t> flow_start_;
  std::map<std::uint32_t, std::uint32_t> flow_end_;
};

}  // namespace

Trace parse_trace(std::string_view text, const std::string& name) {
  TraceBuilder builder;
  std::string key;  // of the outermost object
  const auto on_value = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth == 1 && event == Json::parse_event_t::key) key = value.get<std::string>();
    if (depth == 1 && event == Json::parse_event_t::object_end && key == "meshweave") builder.tables(value);
    if (depth == 2 && event == Json::parse_event_t::object_end && key == "traceEvents") {
      builder.event(value);
      return false;
    }
    return true;
  };
  const auto refuse = [&](std::string message) {
    Diagnostic diagnostic;
    diagnostic.file = name;
    diagnostic.message = std::move(message);
    return InputError(std::vector<Diagnostic>{std::move(diagnostic)});
  };
  try {
    const Json parsed = Json::parse(text, on_value);
    return builder.take();
  } catch (const Json::exception& e) {
    throw refuse(fmt::format("not a trace of meshweave: {}", e.what()));
  } catch (const InputError& e) {
    throw refuse(e.diagnostics().front().message);
  }
}

bool is_trace_file(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream stream(path, std::ios::binary);
  std::string head(512, '\0');
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(stream.gcount()));
  if (head.starts_with("\x1f\x8b")) return true;
  return head.find("\"displayTimeUnit\"") != std::string::npos || head.find("\"traceEvents\"") != std::string::npos;
}

Trace read_trace(const std::string& path) { return parse_trace(read_bytes(path), path); }

}  // namespace meshweave
