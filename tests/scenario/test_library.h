// The library that the reader's tests use: few entries in round numbers, so that expected messages do not change when
// a model or a node is added to the shipped ones.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace meshweave {

// Puts tests/scenario/library in the place of the shipped data while it lives.
class TestLibrary {
 public:
  TestLibrary() { setenv("MESHWEAVE_DATA", MESHWEAVE_SOURCE_DIR "/tests/scenario/library", 1); }
  ~TestLibrary() { unsetenv("MESHWEAVE_DATA"); }
  TestLibrary(const TestLibrary&) = delete;
  TestLibrary& operator=(const TestLibrary&) = delete;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// True when MESHWEAVE_ACCEPT is set: expected files are written instead of compared.
inline bool accepts() { return std::getenv("MESHWEAVE_ACCEPT") != nullptr; }

// A scenario that the test library reads: 16 ranks, tp 2, pp 2, dp 4.
inline const std::string good_scenario = R"({
  "cluster": { "node": "toy-8", "nodes": 2 },
  "model": { "language": { "zoo": "small" } },
  "batch": { "global": 32, "micro": 1 },
  "layout": { "language": { "tp": 2, "pp": 2, "dp": 4 } }
}
)";

}  // namespace meshweave
