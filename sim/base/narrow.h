// A whole number in a narrower type, where it fits; else the program ends with the number's name.
//
//   narrow<std::uint8_t>(streams.size(), "streams")
//   300 of them: this is a bug in meshweave: streams: 300 is not within 0 and 255 (sim/program/builder.cpp:67)
//
// For numbers that are kept small because there are many of them, and that no scenario makes too large: the reader
// refuses one that could.
#pragma once

#include <concepts>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/error.h"

namespace meshweave {

template <std::integral To, std::integral From>
constexpr To narrow(From value, std::string_view name, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  if (!std::in_range<To>(value)) {
    bug(std::string(name) + ": " + std::to_string(value) + " is not within " +
            std::to_string(std::numeric_limits<To>::min()) + " and " + std::to_string(std::numeric_limits<To>::max()),
        file, line);
  }
  return static_cast<To>(value);
}

}  // namespace meshweave
