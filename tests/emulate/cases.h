// Cases for the emulator: small scenarios over all settings of a layout, a schedule and a model.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.h"

namespace meshweave::testing {

struct Factor {
  std::string_view name;
  std::vector<std::string_view> values;
};

// The settings of a case; a case holds an index of a value for each.
const std::vector<Factor>& factors();
constexpr std::size_t factor_count = 25;
using Case = std::array<std::uint8_t, factor_count>;

// The reason why two settings exclude each other; empty when they do not.
bool is_legal(const Case& c);
Scenario scenario_of(const Case& c);
std::string describe(const Case& c);

// A legal case drawn by (seed, index), with some settings fixed; false when `tries` draws are all illegal.
bool draw_case(std::uint64_t seed, std::uint64_t index, const std::vector<std::pair<std::size_t, std::uint8_t>>& fixed,
               int tries, Case& result);

// A case that fails, made simpler one setting at a time (towards each factor's first value) while it fails.
Case shrink(const Case& failing, const std::function<bool(const Case&)>& fails);

}  // namespace meshweave::testing
