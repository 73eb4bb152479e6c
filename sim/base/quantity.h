// Quantities with units: one parser and two formatters for files and command line.
//
// "450 GB/s", "1.8 us", "80 GB" (decimal) or "80 GiB", "3.6 Tb/s" (bits), "989 TFLOP/s", "4 B". A space between
// number and unit is optional. Values are kept as doubles in the base unit: bytes, seconds, bytes/s, FLOP/s.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshweave {

enum class QuantityKind : unsigned char { bytes, seconds, bytes_per_second, flops_per_second };

struct ParsedQuantity {
  double value = 0;   // in the base unit, when `error` is empty
  std::string error;  // what is wrong (expected e.g. "450 GB/s"); empty when parsed
};

// Parses `text` as a quantity of `kind`. Refuses missing units, other dimensions, NaN and infinities.
ParsedQuantity parse_quantity(std::string_view text, QuantityKind kind);

// Shortest readable form that parses back within 1e-3 relative: format_quantity(4.5e11, bytes_per_second) is
// "450 GB/s"; bytes use binary prefixes when `binary`.
std::string format_quantity(double value, QuantityKind kind, bool binary = false);

// Shortest form that parses back to the same double: 84.9e9 is "84.9 GB", 84943110144 is "82952256 KiB".
std::string format_quantity_exactly(double value, QuantityKind kind);

// An example of the kind for error messages, for example "450 GB/s".
std::string_view example_quantity(QuantityKind kind);

// The units that the parser knows for `kind`, for example B, kB, …, TiB.
std::vector<std::string_view> units_of(QuantityKind kind);

}  // namespace meshweave
