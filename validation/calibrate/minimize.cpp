#include "validation/calibrate/minimize.h"

#include <algorithm>
#include <cmath>

namespace meshweave::calibrate {
namespace {

struct Vertex {
  Parameters logs;
  double value = 0;
};

class Simplex {
 public:
  Simplex(const std::function<double(const Parameters&)>& objective, const Parameters& start, double edge)
      : objective_(objective) {
    Parameters logs(start.size());
    std::transform(start.begin(), start.end(), logs.begin(), [](double x) { return std::log(x); });
    add(logs);
    for (std::size_t i = 0; i < logs.size(); ++i) {
      Parameters corner = logs;
      corner[i] += edge;
      add(corner);
    }
  }

  void step() {
    std::sort(vertices_.begin(), vertices_.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
    Vertex& worst = vertices_.back();
    const Parameters centre = centre_without_worst();
    const Vertex reflected = evaluate(blend(centre, worst.logs, -1.0));
    if (reflected.value < vertices_.front().value) {
      const Vertex expanded = evaluate(blend(centre, worst.logs, -2.0));
      worst = expanded.value < reflected.value ? expanded : reflected;
    } else if (reflected.value < vertices_[vertices_.size() - 2].value) {
      worst = reflected;
    } else {
      const Vertex contracted = evaluate(blend(centre, worst.logs, 0.5));
      if (contracted.value < worst.value) {
        worst = contracted;
      } else {
        shrink();
      }
    }
  }

  const Vertex& best() const {
    return *std::min_element(vertices_.begin(), vertices_.end(),
                             [](const auto& a, const auto& b) { return a.value < b.value; });
  }
  Parameters best_point() const { return exponentials(best().logs); }
  int evaluations() const { return evaluations_; }

 private:
  static Parameters exponentials(const Parameters& logs) {
    Parameters point(logs.size());
    std::transform(logs.begin(), logs.end(), point.begin(), [](double x) { return std::exp(x); });
    return point;
  }
  // centre + share · (point − centre)
  static Parameters blend(const Parameters& centre, const Parameters& point, double share) {
    Parameters result(centre.size());
    for (std::size_t i = 0; i < centre.size(); ++i) result[i] = centre[i] + share * (point[i] - centre[i]);
    return result;
  }
  Vertex evaluate(const Parameters& logs) {
    ++evaluations_;
    return {logs, objective_(exponentials(logs))};
  }
  void add(const Parameters& logs) { vertices_.push_back(evaluate(logs)); }
  Parameters centre_without_worst() const {
    Parameters centre(vertices_.front().logs.size(), 0.0);
    for (std::size_t v = 0; v + 1 < vertices_.size(); ++v) {
      for (std::size_t i = 0; i < centre.size(); ++i) centre[i] += vertices_[v].logs[i];
    }
    for (double& c : centre) c /= static_cast<double>(vertices_.size() - 1);
    return centre;
  }
  void shrink() {
    for (std::size_t v = 1; v < vertices_.size(); ++v) {
      vertices_[v] = evaluate(blend(vertices_.front().logs, vertices_[v].logs, 0.5));
    }
  }

  const std::function<double(const Parameters&)>& objective_;
  std::vector<Vertex> vertices_;
  int evaluations_ = 0;
};

}  // namespace

Parameters minimize(const std::function<double(const Parameters&)>& objective, const Parameters& start,
                    int evaluations) {
  constexpr int rounds = 8;
  Parameters best = start;
  double edge = 0.15;
  for (int round = 0; round < rounds; ++round, edge *= 0.7) {
    Simplex simplex(objective, best, edge);
    while (simplex.evaluations() < evaluations / rounds) simplex.step();
    best = simplex.best_point();
  }
  return best;
}

}  // namespace meshweave::calibrate
