// Writes a field description as JSON Schema (draft-07). Library entries become shared definitions, since they occur in
// several places.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/fields.h"
#include "sim/scenario/json_document.h"

namespace meshweave {

class SchemaWriter : public Fields {
 public:
  // The schema of a document whose root object has these fields.
  static Json write(std::string_view title, const Visit& visit);

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
  // `inside_entry`: a base may give the required fields of nested objects.
  SchemaWriter(Json& definitions, bool inside_entry) : definitions_(definitions), inside_entry_(inside_entry) {}

  void add(const Key& key, Json schema);
  void add_with_default(const Key& key, Json schema, Json default_value);
  Json reference_to(Library library, const Visit& visit);  // a name, or the library's definition
  Json nested(const Visit& visit, bool inside_entry);
  Json finish();

  Json& definitions_;
  bool inside_entry_;
  bool one_sort_ = false;  // the fields that are visited belong to some of these objects
  Json properties_ = Json::make_object();
  std::vector<std::string> required_;
  std::string base_key_;  // the key that may give the required fields; empty without
};

}  // namespace meshweave
