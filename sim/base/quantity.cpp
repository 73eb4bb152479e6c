#include "sim/base/quantity.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

namespace meshweave {
namespace {

struct Unit {
  std::string_view name;
  double scale;
  bool written = false;  // used by format_quantity
  bool binary = false;
};

constexpr double ki = 1024, mi = ki * ki, gi = mi * ki, ti = gi * ki;

constexpr std::array byte_units{
    Unit{"B", 1, true},          Unit{"kB", 1e3, true},       Unit{"MB", 1e6, true},       Unit{"GB", 1e9, true},
    Unit{"TB", 1e12, true},      Unit{"PB", 1e15, true},      Unit{"KiB", ki, true, true}, Unit{"MiB", mi, true, true},
    Unit{"GiB", gi, true, true}, Unit{"TiB", ti, true, true},
};

constexpr std::array second_units{
    Unit{"ps", 1e-12, true}, Unit{"ns", 1e-9, true}, Unit{"us", 1e-6, true}, Unit{"ms", 1e-3, true},
    Unit{"s", 1, true},      Unit{"min", 60},        Unit{"h", 3600},
};

constexpr std::array bandwidth_units{
    Unit{"B/s", 1, true},     Unit{"kB/s", 1e3, true},  Unit{"MB/s", 1e6, true}, Unit{"GB/s", 1e9, true},
    Unit{"TB/s", 1e12, true}, Unit{"PB/s", 1e15, true}, Unit{"KiB/s", ki},       Unit{"MiB/s", mi},
    Unit{"GiB/s", gi},        Unit{"TiB/s", ti},        Unit{"b/s", 1.0 / 8},    Unit{"kb/s", 1e3 / 8},
    Unit{"Mb/s", 1e6 / 8},    Unit{"Gb/s", 1e9 / 8},    Unit{"Tb/s", 1e12 / 8},
};

constexpr std::array flop_units{
    Unit{"FLOP/s", 1, true},     Unit{"kFLOP/s", 1e3, true},  Unit{"MFLOP/s", 1e6, true},  Unit{"GFLOP/s", 1e9, true},
    Unit{"TFLOP/s", 1e12, true}, Unit{"PFLOP/s", 1e15, true}, Unit{"EFLOP/s", 1e18, true},
};

struct Dimension {
  QuantityKind kind;
  std::string_view noun;
  std::string_view example;
  std::span<const Unit> units;
};

constexpr std::array dimensions{
    Dimension{QuantityKind::bytes, "a size", "80 GiB", byte_units},
    Dimension{QuantityKind::seconds, "a time", "1.8 us", second_units},
    Dimension{QuantityKind::bytes_per_second, "a bandwidth", "450 GB/s", bandwidth_units},
    Dimension{QuantityKind::flops_per_second, "a compute rate", "989 TFLOP/s", flop_units},
};

const Dimension& dimension_of(QuantityKind kind) { return dimensions[static_cast<std::size_t>(kind)]; }

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units)
    if (unit.name == name) return &unit;
  return nullptr;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

ParsedQuantity refuse(QuantityKind kind, std::string what) {
  return {0, fmt::format("{} (expected e.g. \"{}\")", what, example_quantity(kind))};
}

std::string unknown_unit(std::string_view unit, const Dimension& wanted) {
  for (const Dimension& other : dimensions)
    if (find_unit(other.units, unit))
      return fmt::format("\"{}\" is the unit of {}, not of {}", unit, other.noun, wanted.noun);
  const std::string bytes = unit.ends_with("b") ? std::string(unit.substr(0, unit.size() - 1)) + "B" : std::string();
  if (find_unit(wanted.units, bytes)) return fmt::format("\"{}\" counts bits; a byte is \"B\"", unit);
  return fmt::format("unknown unit \"{}\"", unit);
}

}  // namespace

ParsedQuantity parse_quantity(std::string_view text, QuantityKind kind) {
  const std::string_view trimmed = trim(text);
  double number = 0;
  const auto [end, error] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  if (error == std::errc::result_out_of_range)
    return refuse(kind, fmt::format("the number in \"{}\" is out of range", text));
  if (error != std::errc{} || !std::isfinite(number))
    return refuse(kind, fmt::format("\"{}\" does not begin with a number", text));
  const std::string_view name = trim(trimmed.substr(static_cast<std::size_t>(end - trimmed.data())));
  if (name.empty()) return refuse(kind, fmt::format("\"{}\" has no unit", text));
  const Dimension& dimension = dimension_of(kind);
  const Unit* unit = find_unit(dimension.units, name);
  if (!unit) return refuse(kind, unknown_unit(name, dimension));
  const double value = number * unit->scale;
  if (!std::isfinite(value)) return refuse(kind, fmt::format("\"{}\" is out of range", text));
  return {value, {}};
}

std::string format_quantity(double value, QuantityKind kind, bool binary) {
  const auto write = [&](const Unit& unit) { return fmt::format("{:.4g} {}", value / unit.scale, unit.name); };
  const Unit* chosen = nullptr;
  for (const Unit& unit : dimension_of(kind).units) {
    const bool base = unit.scale == 1;
    if (!unit.written || (unit.binary != binary && !base)) continue;
    // The rounded number decides, so that 999.99 GB is written "1 TB".
    const bool large_enough = std::abs(value) / unit.scale >= (unit.binary ? 1 : 0.99995);
    if (!chosen || large_enough) chosen = &unit;
  }
  return write(value == 0 ? *find_unit(dimension_of(kind).units, kind == QuantityKind::seconds ? "s" : chosen->name)
                          : *chosen);
}

std::string format_quantity_exactly(double value, QuantityKind kind) {
  std::string shortest;
  for (const Unit& unit : dimension_of(kind).units) {
    const std::string text = fmt::format("{} {}", value / unit.scale, unit.name);
    if (parse_quantity(text, kind).value != value) continue;
    // Among equally short texts the later, larger unit wins; units that are never written come last in a tie.
    if (shortest.empty() || text.size() < shortest.size() || (text.size() == shortest.size() && unit.written))
      shortest = text;
  }
  return shortest;
}

std::string_view example_quantity(QuantityKind kind) { return dimension_of(kind).example; }

std::vector<std::string_view> units_of(QuantityKind kind) {
  std::vector<std::string_view> names;
  for (const Unit& unit : dimension_of(kind).units) names.push_back(unit.name);
  return names;
}

}  // namespace meshweave
