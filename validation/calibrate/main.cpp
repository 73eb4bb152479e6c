// calibrate MODEL ENTRY TABLE [DEVICE_KEY] [--fit]: judges, or fits, the constants of a catalog entry on a measured
// table. Developers run it; the tool itself does not need it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "sim/scenario/catalog.h"
#include "validation/calibrate/fits.h"

namespace {

constexpr const char* usage =
    "usage: calibrate matmul|attention|attention-backward|node-collectives ENTRY TABLE.csv [DEVICE_KEY] [--fit]\n";

}  // namespace

int main(int argc, char** argv) {
  using namespace meshweave;
  using namespace meshweave::calibrate;
  std::vector<std::string> words(argv + 1, argv + argc);
  FitRequest request;
  request.fit = std::erase(words, "--fit") > 0;
  if (words.size() < 3) {
    std::fputs(usage, stderr);
    return 2;
  }
  request.table = words[2];
  const std::string key = words.size() > 3 ? words[3] : "";
  try {
    if (words[0] == "matmul") {
      calibrate_matmul(read_device(words[1]), request);
    } else if (words[0] == "attention") {
      calibrate_attention(read_device(words[1]), request, key);
    } else if (words[0] == "attention-backward") {
      calibrate_attention_backward(read_device(words[1]), request);
    } else {
      std::fputs(usage, stderr);
      return 2;
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  }
  return 0;
}
