#include "sim/program/cells.h"

#include <algorithm>

namespace meshweave {
namespace {

// The tensors of each storage.
class Views {
 public:
  explicit Views(const Body& body) : first_(body.storages.size() + 1, 0), tensors_(body.tensors.size()) {
    for (const Tensor& t : body.tensors) ++first_[t.storage + 1];
    for (std::size_t s = 1; s < first_.size(); ++s) first_[s] += first_[s - 1];
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    for (std::uint32_t t = 0; t < body.tensors.size(); ++t) tensors_[next[body.tensors[t].storage]++] = t;
  }
  std::span<const std::uint32_t> of(std::size_t storage) const {
    return {tensors_.data() + first_[storage], first_[storage + 1] - first_[storage]};
  }

 private:
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> tensors_;
};

class Cutter {
 public:
  Cutter(const Program& program, const Body& body) : program_(program), body_(body), views_(body) {
    cells_.of_tensor.resize(body.tensors.size());
    cells_.storage.reserve(body.storages.size());
  }

  Cells cut() {
    for (std::uint32_t s = 0; s < body_.storages.size(); ++s) {
      const std::span<const std::uint32_t> tensors = views_.of(s);
      if (tensors.size() == 1) {
        cells_.of_tensor[tensors[0]] = {next_cell(), next_cell() + 1};
        cells_.storage.push_back(s);
      } else if (!tensors.empty()) {
        cut_at_bounds(s, tensors);
      }
    }
    return std::move(cells_);
  }

 private:
  std::uint32_t next_cell() const { return static_cast<std::uint32_t>(cells_.storage.size()); }

  void cut_at_bounds(std::uint32_t storage, std::span<const std::uint32_t> tensors) {
    bounds_.clear();
    for (const std::uint32_t t : tensors) {
      const auto [first, last] = program_.byte_range(body_, t);
      bounds_.push_back(first);
      bounds_.push_back(last);
    }
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
    const std::uint32_t base = next_cell();
    const auto cell_at = [&](std::int64_t byte) {
      const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), byte);
      return base + static_cast<std::uint32_t>(bound - bounds_.begin());
    };
    for (const std::uint32_t t : tensors) {
      const auto [first, last] = program_.byte_range(body_, t);
      cells_.of_tensor[t] = {cell_at(first), cell_at(last)};
    }
    cells_.storage.insert(cells_.storage.end(), bounds_.size() - 1, storage);
  }

  const Program& program_;
  const Body& body_;
  const Views views_;
  std::vector<std::int64_t> bounds_;
  Cells cells_;
};

}  // namespace

Cells cut_storages(const Program& program, const Body& body) { return Cutter(program, body).cut(); }

}  // namespace meshweave
