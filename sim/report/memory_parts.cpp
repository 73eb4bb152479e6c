#include "sim/report/memory_parts.h"

#include <algorithm>
#include <map>

namespace meshweave {

namespace {

// Buckets differ in their number alone: "gradients bucket 12" is one of the "gradients bucket".
std::string name_without_number(const std::string& name) {
  const std::size_t end = name.find_last_not_of("0123456789");
  if (end == std::string::npos || end + 1 == name.size()) return name;
  const std::string stem = name.substr(0, end + 1);
  return stem.ends_with(" bucket ") ? stem.substr(0, end) : name;
}

}  // namespace

std::vector<MemoryPart> memory_at_peak(const RunView& run, std::uint32_t body_index, Category category) {
  const Body& body = run.program.bodies[body_index];
  const Liveness& liveness = run.liveness[body_index];
  std::vector<const TensorSpec*> first(body.storages.size(), nullptr);
  for (const Tensor& tensor : body.tensors) {
    if (first[tensor.storage] == nullptr) first[tensor.storage] = &run.program.tensor_specs[tensor.spec];
  }
  std::map<std::string, MemoryPart> by_name;
  for (std::size_t s = 0; s < body.storages.size(); ++s) {
    const Storage& storage = body.storages[s];
    const StorageLife& life = liveness.lives[s];
    const bool alive = storage.persistent || (life.born <= liveness.peak_op && liveness.peak_op < life.dies);
    if (!alive || storage.category != category || storage.bytes == 0) continue;
    const std::string name = first[s] != nullptr ? name_without_number(first[s]->name) : "(unnamed)";
    MemoryPart& part = by_name[name];
    part.name = name;
    ++part.count;
    part.bytes += storage.bytes;
  }
  std::vector<MemoryPart> parts;
  for (auto& [name, part] : by_name) parts.push_back(std::move(part));
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return parts;
}

}  // namespace meshweave
