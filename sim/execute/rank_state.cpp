#include "sim/execute/rank_state.h"

#include <cmath>

namespace meshweave {

Picoseconds slowed_end(Picoseconds start, double work, double slowdown, const std::vector<Residency>& residencies) {
  Picoseconds now = start;
  while (true) {
    bool resident = false;
    Picoseconds change = unknown_time;
    for (const Residency& r : residencies) {
      if (r.launch <= now && now < r.end) resident = true;
      if (r.launch > now) change = std::min(change, r.launch);
      if (r.end > now) change = std::min(change, r.end);
    }
    const double pace = resident ? slowdown : 1.0;
    const double left = work * pace;
    if (change == unknown_time || left <= static_cast<double>((change - now).count())) {
      return now + Picoseconds{std::llround(left)};
    }
    work -= static_cast<double>((change - now).count()) / pace;
    now = change;
  }
}

}  // namespace meshweave
