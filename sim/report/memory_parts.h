// What is alive in a rank's memory at its peak, by tensor.
#pragma once

#include <string>
#include <vector>

#include "sim/report/report.h"

namespace meshweave {

struct MemoryPart {
  std::string name;        // of the first tensor on the storage; without the number of a bucket
  std::int64_t count = 0;  // storages
  std::int64_t bytes = 0;
};

// The storages of one category that are alive at the peak of `body`, joined by name, largest first.
std::vector<MemoryPart> memory_at_peak(const RunView& run, std::uint32_t body, Category category);

}  // namespace meshweave
