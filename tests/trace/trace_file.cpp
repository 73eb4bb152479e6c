#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/error.h"
#include "sim/trace/trace_reader.h"
#include "sim/trace/trace_writer.h"
#include "tests/trace/small_trace.h"

using namespace meshweave;
namespace fs = std::filesystem;

namespace {

std::string text_of(const Trace& trace) {
  std::string text;
  write_trace(trace, [&](std::string_view piece) { text += piece; });
  return text;
}

// An empty folder of its own, removed at the end.
struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("meshweave-trace-" + std::to_string(::getpid()));
  TemporaryFolder() { fs::create_directories(path); }
  ~TemporaryFolder() { fs::remove_all(path); }
  std::size_t files() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), {})); }
};

}  // namespace

TEST_CASE("A trace file holds what a viewer of Chrome traces expects") {
  const nlohmann::json file = nlohmann::json::parse(text_of(two_ranks()));
  std::map<std::pair<int, int>, double> busy_until;  // by pid and tid
  std::map<int, int> flow_starts, flow_ends;
  std::set<int> named;
  double now = 0;
  for (const nlohmann::json& e : file.at("traceEvents")) {
    const std::string phase = e.at("ph");
    if (phase == "M") {
      if (e.at("name") == "process_name") named.insert(e.at("pid").get<int>());
      continue;
    }
    const double ts = e.at("ts");
    CHECK(ts >= now);
    now = ts;
    CHECK(named.count(e.at("pid")) == 1);
    if (phase == "X") {
      double& until = busy_until[{e.at("pid"), e.at("tid")}];
      CHECK(ts >= until);
      until = ts + e.at("dur").get<double>();
    } else if (phase == "s") {
      CHECK(++flow_starts[e.at("id")] == 1);
    } else if (phase == "f") {
      CHECK(e.at("bp") == "e");
      CHECK(++flow_ends[e.at("id")] == 1);
    } else {
      CHECK(phase == "C");
    }
  }
  CHECK(busy_until.size() == 4);
  CHECK(flow_starts == flow_ends);
  CHECK(flow_starts.size() == 1);
}

TEST_CASE("Times are printed as decimals of microseconds, rounded down to nanoseconds") {
  Trace trace = two_ranks();
  trace.slices[0].start = Picoseconds{1'234'567'999};
  trace.slices[0].transfer = trace.slices[0].start;
  trace.slices[0].end = Picoseconds{1'234'570'001};
  // Floors: 1,234,567 ns and 1,234,570 ns, so the duration is 3 ns.
  CHECK(text_of(trace).find("\"ts\":1234.567,\"dur\":0.003") != std::string::npos);
}

TEST_CASE("Labels carry rank, coordinates and how many ranks a shown one stands for") {
  const std::string text = text_of(two_ranks());
  CHECK(text.find("\"name\":\"rank 0 [tp0]\"") != std::string::npos);
  CHECK(text.find("\"name\":\"rank 1 [tp1], like 2 others\"") != std::string::npos);
}

TEST_CASE("A slice is called after its label and its pass") {
  const auto name = [](const std::string& label, const std::string& phase) {
    TraceOp op;
    op.label = label, op.phase = phase;
    return slice_name(op);
  };
  CHECK(name("fc1", "forward") == "fc1");
  CHECK(name("fc1", "backward-data") == "fc1 dgrad");
  CHECK(name("fc1", "backward-weight") == "fc1 wgrad");
  CHECK(name("fc1", "recompute") == "fc1 recompute");
  CHECK(name("fc1 gradient all-gather", "backward-data") == "fc1 gradient all-gather");
  CHECK(name("send backward", "backward-data") == "send backward");
}

TEST_CASE("A trace reads back as it was written") {
  const Trace trace = two_ranks();
  const std::string text = text_of(trace);
  const Trace back = parse_trace(text, "t.json");
  CHECK(text_of(back) == text);
  CHECK(back.slices == trace.slices);
  CHECK(back.flows == trace.flows);
  CHECK(back.memory == trace.memory);
  CHECK(back.memory_bytes == trace.memory_bytes);
  CHECK(back.provenance.scenario == "a \"quoted\" file.json");
  CHECK_FALSE(back.provenance.emulation);
  CHECK(back.step_end == trace.step_end);
}

TEST_CASE("What was emulated reads back") {
  Trace trace = two_ranks();
  trace.provenance.emulation = TraceEmulation{"tiny", "float", 7};
  CHECK(parse_trace(text_of(trace), "t.json").provenance.emulation == trace.provenance.emulation);
}

TEST_CASE("A compressed file reads back like a plain one, and is the same each time") {
  const TemporaryFolder folder;
  const Trace trace = two_ranks();
  const std::string plain = folder.path / "a.json", packed = folder.path / "a.json.gz",
                    again = folder.path / "b.json.gz";
  write_trace(trace, plain);
  write_trace(trace, packed);
  write_trace(trace, again);
  CHECK(folder.files() == 3);
  CHECK(read_trace(packed).slices == trace.slices);
  CHECK(read_trace(plain).slices == trace.slices);
  const auto bytes = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  CHECK(bytes(plain) == text_of(trace));
  CHECK(bytes(packed) == bytes(again));
  CHECK(bytes(packed).size() < bytes(plain).size());
}

TEST_CASE("An interrupted or impossible write leaves no file behind") {
  const TemporaryFolder folder;
  const InterruptFlag interrupt{1};
  CHECK_THROWS_AS(write_trace(two_ranks(), folder.path / "a.json", &interrupt), Interrupted);
  CHECK(folder.files() == 0);
  CHECK_THROWS_AS(write_trace(two_ranks(), folder.path / "missing" / "a.json"), IoError);
  CHECK(folder.files() == 0);
}

TEST_CASE("Files that are no trace are refused with the reason") {
  const auto message = [](const std::string& text) -> std::string {
    try {
      parse_trace(text, "t.json");
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(message("{\"traceEvents\":[]}") ==
        "t.json: error: the key \"meshweave\" is missing (a trace of another tool?)\n");
  CHECK(message("{").find("not a trace of meshweave") != std::string::npos);
  std::string text = text_of(two_ranks());
  const std::string before = "\"cause\":0";
  text.replace(text.find(before), before.size(), "\"cause\":99");
  CHECK(message(text).find("cause 99 does not exist") != std::string::npos);
  text = text_of(two_ranks());
  text.replace(text.find("\"id\":5"), 6, "\"id\":4");
  CHECK(message(text).find("slice 4 occurs twice") != std::string::npos);
}
