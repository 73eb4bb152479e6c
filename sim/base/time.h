// Time of the engine: integer picoseconds, so that results do not depend on the order of floating-point sums.
//
// One picosecond is 1/1000 of the finest unit that a trace shows; int64 holds 106 days. Rates and works stay
// doubles; a duration is rounded to the nearest picosecond whenever the end of something is set.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>

namespace meshweave {

using Picoseconds = std::chrono::duration<std::int64_t, std::pico>;

inline Picoseconds picoseconds_from_seconds(double seconds) { return Picoseconds{std::llround(seconds * 1e12)}; }
inline double seconds_from_picoseconds(Picoseconds t) { return static_cast<double>(t.count()) * 1e-12; }

}  // namespace meshweave
