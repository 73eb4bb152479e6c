// The libFuzzer target of the scenario reader. By hand:
//   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_scenario
//   build/fuzz/tests/fuzz/fuzz_scenario -max_len=4096 NEW_INPUTS tests/fuzz/seeds build/fuzz/tests/fuzz/broken
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/try_scenario.h"
#include "tests/scenario/test_library.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const meshweave::TestLibrary library;
  meshweave::try_scenario({reinterpret_cast<const char*>(data), size});
  return 0;
}
