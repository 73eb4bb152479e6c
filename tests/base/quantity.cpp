// Quantities: what parses, what is refused and why, and that formatting parses back.
#include "sim/base/quantity.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/base/random.h"

using namespace meshweave;
using enum QuantityKind;

namespace {

double value_of(std::string_view text, QuantityKind kind) {
  const ParsedQuantity parsed = parse_quantity(text, kind);
  INFO(text << ": " << parsed.error);
  CHECK(parsed.error.empty());
  return parsed.value;
}

std::string error_of(std::string_view text, QuantityKind kind) { return parse_quantity(text, kind).error; }

}  // namespace

TEST_CASE("Quantities are read in their base unit") {
  CHECK(value_of("450 GB/s", bytes_per_second) == 450e9);
  CHECK(value_of("450GB/s", bytes_per_second) == 450e9);
  CHECK(value_of("3.6 Tb/s", bytes_per_second) == 450e9);  // 3.6e12 bits / 8
  CHECK(value_of("1 GiB/s", bytes_per_second) == 1073741824.0);
  CHECK(value_of("1.8 us", seconds) == Approx(1.8e-6).epsilon(1e-15));
  CHECK(value_of("2 min", seconds) == 120);
  CHECK(value_of("80 GB", bytes) == 80e9);
  CHECK(value_of("80 GiB", bytes) == 80.0 * 1024 * 1024 * 1024);
  CHECK(value_of(" 4 B ", bytes) == 4);
  CHECK(value_of("-1 ms", seconds) == -1e-3);
  CHECK(value_of("989.4 TFLOP/s", flops_per_second) == 989.4e12);
  CHECK(value_of("1e3 FLOP/s", flops_per_second) == 1000);
}

TEST_CASE("Quantities are refused with the reason and an example") {
  CHECK(error_of("450", bytes_per_second) == "\"450\" has no unit (expected e.g. \"450 GB/s\")");
  CHECK(error_of("450 Gx", bytes_per_second) == "unknown unit \"Gx\" (expected e.g. \"450 GB/s\")");
  CHECK(error_of("450 GB", bytes_per_second) ==
        "\"GB\" is the unit of a size, not of a bandwidth (expected e.g. \"450 GB/s\")");
  CHECK(error_of("80 Gb", bytes) == "\"Gb\" counts bits; a byte is \"B\" (expected e.g. \"80 GiB\")");
  CHECK(error_of("fast", seconds) == "\"fast\" does not begin with a number (expected e.g. \"1.8 us\")");
  CHECK(error_of("", seconds) == "\"\" does not begin with a number (expected e.g. \"1.8 us\")");
  CHECK(error_of("inf s", seconds) == "\"inf s\" does not begin with a number (expected e.g. \"1.8 us\")");
  CHECK(error_of("nan s", seconds) == "\"nan s\" does not begin with a number (expected e.g. \"1.8 us\")");
  CHECK(error_of("1e400 s", seconds) == "the number in \"1e400 s\" is out of range (expected e.g. \"1.8 us\")");
  CHECK(error_of("1e308 TB", bytes) == "\"1e308 TB\" is out of range (expected e.g. \"80 GiB\")");
}

TEST_CASE("Quantities are written with the largest unit that leaves a number of at least 1") {
  CHECK(format_quantity(4.5e11, bytes_per_second) == "450 GB/s");
  CHECK(format_quantity(84943110144.0, bytes) == "84.94 GB");
  CHECK(format_quantity(84943110144.0, bytes, true) == "79.11 GiB");
  CHECK(format_quantity(1.8e-6, seconds) == "1.8 us");
  CHECK(format_quantity(75, seconds) == "75 s");
  CHECK(format_quantity(9.894e14, flops_per_second) == "989.4 TFLOP/s");
  CHECK(format_quantity(0, seconds) == "0 s");
  CHECK(format_quantity(0, bytes) == "0 B");
  CHECK(format_quantity(999.99e9, bytes) == "1 TB");
  CHECK(format_quantity(-2e9, bytes) == "-2 GB");
}

TEST_CASE("Formatted quantities parse back") {
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const QuantityKind kind = std::array{bytes, seconds, bytes_per_second, flops_per_second}[i % 4];
    // From 1e-9 to 1e15: every prefix occurs.
    const double value = std::pow(10, -9 + 24 * random_uniform(1, stream_key("quantity"), i));
    CHECK(value_of(format_quantity(value, kind), kind) == Approx(value).epsilon(1e-3));
    CHECK(value_of(format_quantity_exactly(value, kind), kind) == value);
  }
  CHECK(format_quantity_exactly(84943110144.0, bytes) == "82952256 KiB");
  CHECK(format_quantity_exactly(80.0 * 1024 * 1024 * 1024, bytes) == "80 GiB");
}
