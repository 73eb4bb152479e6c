// calibrate MODEL ENTRY KEY TABLE… [--fit]: judges, or fits, the constants of a catalog entry on measured tables.
// ENTRY is a device (matmul, attention, attention-backward, memory) or NODE+FABRIC (collectives); KEY selects the rows
// of one device or backend in tables of several. Developers run it; the tool itself does not need it.
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "sim/scenario/catalog.h"
#include "validation/calibrate/fits.h"

namespace meshweave::calibrate {
namespace {

constexpr const char* usage =
    "usage: calibrate matmul|attention|attention-backward|memory DEVICE KEY TABLE.csv... [--fit]\n"
    "       calibrate collectives NODE+FABRIC KEY TABLE.csv... [--fit]\n";

Cluster read_cluster(const std::string& entry) {
  const std::size_t plus = entry.find('+');
  Cluster cluster;
  cluster.node = read_node(entry.substr(0, plus));
  if (plus != std::string::npos) cluster.fabric = read_fabric(entry.substr(plus + 1));
  return cluster;
}

// False when there is no such model.
bool calibrate(const std::string& model, const std::string& entry, const std::string& key, const FitRequest& request) {
  if (model == "matmul") {
    calibrate_matmul(read_device(entry), request, key);
  } else if (model == "attention") {
    calibrate_attention(read_device(entry), request, key);
  } else if (model == "attention-backward") {
    calibrate_attention_backward(read_device(entry), request);
  } else if (model == "memory") {
    judge_memory(read_device(entry), request, key);
  } else if (model == "collectives") {
    calibrate_collectives(read_cluster(entry), request, key);
  } else {
    return false;
  }
  return true;
}

int run(std::vector<std::string> words) {
  FitRequest request;
  request.fit = std::erase(words, "--fit") > 0;
  constexpr std::size_t least_words = 4;
  if (words.size() < least_words) {
    std::fputs(usage, stderr);
    return 2;
  }
  request.tables.assign(words.begin() + 3, words.end());
  if (calibrate(words[0], words[1], words[2], request)) return 0;
  std::fputs(usage, stderr);
  return 2;
}

}  // namespace
}  // namespace meshweave::calibrate

int main(int argc, char** argv) {
  try {
    return meshweave::calibrate::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  }
}
