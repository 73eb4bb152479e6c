// The fields of a JSON object, described once for three readers of the description: FieldReader fills C++ values
// from a file, FieldWriter writes them back as the resolved scenario, SchemaWriter writes the JSON Schema.
//
// A description is a function over Fields that names every key with its value, its range and its meaning:
//   void batch_fields(Fields& fields, Batch& batch) {
//     fields.integer({"global", "samples per step", Need::required}, batch.global, {1, 1'000'000'000});
//     fields.integer({"micro", "samples per micro-batch and data-parallel rank"}, batch.micro, {1, 1'000'000});
//   }
// It must visit the same keys whatever the values are.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/quantity.h"

namespace meshweave {

enum class Need : std::uint8_t {
  required,  // must be given, unless the entry named by "base" gives it
  optional,  // its default is the value held before the visit
  derived,   // its default follows from other fields, after the visit
  absent,    // may be missing; an illegal value held (out of range, NaN, empty) stands for that
};

struct Key {
  std::string_view name;
  std::string_view meaning;
  Need need = Need::optional;
};

// Legal values: least ≤ value ≤ most, or least < value where `above`.
template <class T>
struct Range {
  T least = std::numeric_limits<T>::lowest();
  T most = std::numeric_limits<T>::max();
  bool above = false;
  bool contains(T value) const { return (above ? value > least : value >= least) && value <= most; }
};
using IntegerRange = Range<std::int64_t>;
using NumberRange = Range<double>;

constexpr double unset_number = std::numeric_limits<double>::quiet_NaN();

// The key of an entry object that names the entry whose fields are its defaults.
constexpr std::string_view base_key = "base";
// The key of a module that does so: modules may name a shape of the zoo beside keys of their own.
constexpr std::string_view zoo_key = "zoo";

// The shipped collections of named entries.
enum class Library : std::uint8_t { models, devices, nodes, fabrics };

class Fields {
 public:
  using Visit = std::function<void(Fields&)>;

  // A list, or an object whose keys are the user's names, of items that share one description.
  struct Items {
    std::function<std::size_t()> size;
    std::function<std::string(std::size_t)> name;  // named items only
    std::function<void(std::string)> add;
    std::function<void()> clear;
    std::function<void(Fields&, std::size_t)> visit;
  };

  virtual ~Fields() = default;

  virtual void integer(const Key& key, std::int64_t& value, const IntegerRange& range) = 0;
  virtual void number(const Key& key, double& value, const NumberRange& range) = 0;
  virtual void quantity(const Key& key, double& value, QuantityKind kind, const NumberRange& range) = 0;
  virtual void flag(const Key& key, bool& value) = 0;
  virtual void text(const Key& key, std::string& value) = 0;
  // A list of integers, or an object that describes them by `instead`.
  virtual void integers(const Key& key, std::vector<int>& values, const IntegerRange& range, const Visit& instead) = 0;
  // A nested object; a string or an integer stands for an object with this one value under `shorthand`, when that is
  // not empty.
  virtual void object(const Key& key, const Visit& visit, std::string_view shorthand = {}) = 0;
  // A library entry: its name, { "base": name, … }, or all of its fields. `name` receives the entry's name;
  // `fallback` names the entry taken when the key is absent, when it is not empty.
  virtual void entry(const Key& key, Library library, std::string& name, const Visit& visit,
                     std::string_view fallback = {}) = 0;
  // Names the entry whose fields are the defaults of the fields that follow in the same object.
  virtual void base(const Key& key, Library library, std::string& name, const Visit& visit) = 0;
  // An array of as many strings as there are names in `pair` stands for an item with these keys.
  virtual void list(const Key& key, const Items& items, std::initializer_list<std::string_view> pair) = 0;
  virtual void named(const Key& key, const Items& items) = 0;
  // The fields of one sort of objects. Where `applies` does not hold they have no value: the reader refuses them as
  // belonging to `owner`, the writer leaves them out. The schema requires none of them.
  virtual void where(bool applies, std::string_view owner, const Visit& visit) = 0;
  // A key of the format that this version accepts only as `value` ("tsp": 1), or not at all.
  virtual void only(const Key& key, std::int64_t value) = 0;
  virtual void unsupported(const Key& key) = 0;

  void integer(const Key& key, int& value, const IntegerRange& range) {
    std::int64_t wide = value;
    integer(key, wide, range);
    value = static_cast<int>(wide);
  }

  // One of `values`, spelled by name_of(). `later` are names of the format that this version does not support.
  template <class E>
  void choice(const Key& key, E& value, std::initializer_list<E> values,
              std::initializer_list<std::string_view> later = {}) {
    std::vector<std::string_view> names;
    std::size_t index = values.size();
    for (const E each : values) {
      if (each == value) index = names.size();
      names.push_back(name_of(each));
    }
    choose(key, index, names, later);
    if (index < values.size()) value = *(values.begin() + index);
  }

  template <class T>
  void list(const Key& key, std::vector<T>& values, void (*describe)(Fields&, T&),
            std::initializer_list<std::string_view> pair = {}) {
    list(key,
         Items{[&] { return values.size(); },
               {},
               [&](std::string) { values.emplace_back(); },
               [&] { values.clear(); },
               [&](Fields& fields, std::size_t i) { describe(fields, values[i]); }},
         pair);
  }

  template <class T>
  void named(const Key& key, std::vector<std::pair<std::string, T>>& values, void (*describe)(Fields&, T&)) {
    named(key, Items{[&] { return values.size(); }, [&](std::size_t i) { return values[i].first; },
                     [&](std::string name) { values.emplace_back(std::move(name), T{}); }, [&] { values.clear(); },
                     [&](Fields& fields, std::size_t i) { describe(fields, values[i].second); }});
  }

 protected:
  // `index` is that of the value held, names.size() when it is none of them.
  virtual void choose(const Key& key, std::size_t& index, const std::vector<std::string_view>& names,
                      const std::vector<std::string_view>& later) = 0;
};

}  // namespace meshweave
