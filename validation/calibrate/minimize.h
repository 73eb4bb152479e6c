// Minimises a function of a few positive parameters without derivatives: the simplex method of Nelder and Mead
// (1965) on the logarithms of the parameters, started again from its own result until that no longer helps.
#pragma once

#include <functional>
#include <vector>

namespace meshweave::calibrate {

using Parameters = std::vector<double>;

// `start` holds positive values; the best point found is returned.
Parameters minimize(const std::function<double(const Parameters&)>& objective, const Parameters& start,
                    int evaluations);

}  // namespace meshweave::calibrate
