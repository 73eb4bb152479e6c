// Writes the values of a field description as JSON: the resolved scenario. Quantities are written exactly, so that
// reading the result gives the same values again.
#pragma once

#include "sim/scenario/fields.h"
#include "sim/scenario/json_document.h"

namespace meshweave {

class FieldWriter : public Fields {
 public:
  static Json write(const Visit& visit);

  using Fields::integer;
  void integer(const Key& key, std::int64_t& value, const IntegerRange& range) override;
  void number(const Key& key, double& value, const NumberRange& range) override;
  void quantity(const Key& key, double& value, QuantityKind kind, const NumberRange& range) override;
  void flag(const Key& key, bool& value) override;
  void text(const Key& key, std::string& value) override;
  void integers(const Key& key, std::vector<int>& values, const IntegerRange& range, const Visit& instead) override;
  void object(const Key& key, const Visit& visit, std::string_view shorthand) override;
  void entry(const Key& key, Library library, std::string& name, const Visit& visit,
             std::string_view fallback) override;
  void base(const Key& key, Library library, std::string& name, const Visit& visit) override;
  void list(const Key& key, const Items& items, std::initializer_list<std::string_view> pair) override;
  void named(const Key& key, const Items& items) override;
  void where(bool applies, std::string_view owner, const Visit& visit) override;
  void only(const Key& key, std::int64_t value) override;
  void unsupported(const Key& key) override;

 protected:
  void choose(const Key& key, std::size_t& index, const std::vector<std::string_view>& names,
              const std::vector<std::string_view>& later) override;

 private:
  void add(const Key& key, Json value) {
    if (applies_) object_.add(key.name, std::move(value));
  }

  bool applies_ = true;
  Json object_ = Json::make_object();
};

}  // namespace meshweave
