#include "sim/scenario/schema_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <type_traits>

#include "sim/scenario/library.h"

namespace meshweave {
namespace {

Json text_of(std::string_view text) { return Json::make(text); }

Json object_of(std::initializer_list<std::pair<std::string_view, Json>> members) {
  Json object = Json::make_object();
  for (const auto& [key, value] : members) object.add(key, value);
  return object;
}

template <class Strings>
Json list_of(const Strings& strings) {
  Json list = Json::make_array();
  for (const auto& each : strings) list.items.push_back(Json::make(std::string_view(each)));
  return list;
}

Json any_of(std::initializer_list<Json> choices) {
  Json list = Json::make_array();
  list.items = choices;
  return object_of({{"anyOf", std::move(list)}});
}

template <class T>
Json typed(std::string_view type, const Range<T>& range) {
  Json schema = object_of({{"type", text_of(type)}});
  if (range.least != std::numeric_limits<T>::lowest())
    schema.add(range.above ? "exclusiveMinimum" : "minimum", Json::make(range.least));
  if (std::is_integral_v<T> || range.most != std::numeric_limits<T>::max())
    schema.add("maximum", Json::make(range.most));
  return schema;
}

Json quantity_pattern(QuantityKind kind) {
  const std::vector<std::string_view> units = units_of(kind);
  return text_of(fmt::format("^ *([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][-+]?[0-9]+)? *({}) *$", fmt::join(units, "|")));
}

}  // namespace

Json SchemaWriter::write(std::string_view title, const Visit& visit) {
  Json definitions = Json::make_object();
  SchemaWriter writer(definitions, false);
  visit(writer);
  Json schema = object_of({{"$schema", text_of("http://json-schema.org/draft-07/schema#")}, {"title", text_of(title)}});
  Json body = writer.finish();
  for (std::size_t i = 0; i < body.items.size(); ++i) schema.add(body.keys[i], std::move(body.items[i]));
  schema.add("definitions", std::move(definitions));
  return schema;
}

void SchemaWriter::add(const Key& key, Json schema) {
  Json described = object_of({{"description", text_of(key.meaning)}});
  for (std::size_t i = 0; i < schema.items.size(); ++i) described.add(schema.keys[i], std::move(schema.items[i]));
  properties_.add(key.name, std::move(described));
  if (key.need == Need::required && !one_sort_) required_.emplace_back(key.name);
}

void SchemaWriter::add_with_default(const Key& key, Json schema, Json default_value) {
  if (key.need == Need::optional) schema.add("default", std::move(default_value));
  add(key, std::move(schema));
}

Json SchemaWriter::finish() {
  Json schema = object_of({{"type", text_of("object")},
                           {"properties", std::move(properties_)},
                           {"additionalProperties", Json::make(false)}});
  if (required_.empty() || (inside_entry_ && base_key_.empty())) return schema;
  Json all = object_of({{"required", list_of(required_)}});
  if (base_key_.empty()) {
    schema.add("required", list_of(required_));
  } else {
    Json either = any_of({object_of({{"required", list_of(std::vector<std::string>{base_key_})}}), std::move(all)});
    schema.add("anyOf", std::move(either.items.front()));
  }
  return schema;
}

Json SchemaWriter::nested(const Visit& visit, bool inside_entry) {
  SchemaWriter writer(definitions_, inside_entry);
  visit(writer);
  return writer.finish();
}

void SchemaWriter::integer(const Key& key, std::int64_t& value, const IntegerRange& range) {
  add_with_default(key, typed("integer", range), Json::make(value));
}

void SchemaWriter::number(const Key& key, double& value, const NumberRange& range) {
  add_with_default(key, typed("number", range), Json::make(value));
}

void SchemaWriter::quantity(const Key& key, double& value, QuantityKind kind, const NumberRange& range) {
  Json with_unit = object_of({{"type", text_of("string")}, {"pattern", quantity_pattern(kind)}});
  Json schema = std::move(with_unit);
  if (range.contains(0)) schema = any_of({std::move(schema), object_of({{"const", Json::make(std::int64_t{0})}})});
  add_with_default(key, std::move(schema), text_of(format_quantity_exactly(value, kind)));
}

void SchemaWriter::flag(const Key& key, bool& value) {
  add_with_default(key, object_of({{"type", text_of("boolean")}}), Json::make(value));
}

void SchemaWriter::text(const Key& key, std::string& value) {
  add_with_default(key, object_of({{"type", text_of("string")}}), text_of(value));
}

void SchemaWriter::integers(const Key& key, std::vector<int>&, const IntegerRange& range, const Visit& instead) {
  Json list = object_of({{"type", text_of("array")}, {"items", typed("integer", range)}});
  add(key, any_of({std::move(list), nested(instead, inside_entry_)}));
}

void SchemaWriter::object(const Key& key, const Visit& visit, std::string_view shorthand) {
  Json schema = nested(visit, inside_entry_);
  if (!shorthand.empty()) {
    Json name = *schema.find("properties")->find(shorthand);
    schema = any_of({std::move(name), std::move(schema)});
  }
  add(key, std::move(schema));
}

Json SchemaWriter::reference_to(Library library, const Visit& visit) {
  const std::string_view noun = noun_of(library);
  if (!definitions_.find(noun)) {
    // Entered before it is filled in, since entries refer to entries of other libraries.
    definitions_.add(noun, Json{});
    SchemaWriter writer(definitions_, true);
    writer.base_key_ = base_key;
    writer.add({base_key, "the entry whose fields are the defaults of the rest"},
               object_of({{"enum", list_of(names_in(library))}}));
    visit(writer);
    *definitions_.find(noun) = writer.finish();
  }
  Json name = object_of({{"enum", list_of(names_in(library))}});
  return any_of({std::move(name), object_of({{"$ref", text_of(fmt::format("#/definitions/{}", noun))}})});
}

void SchemaWriter::entry(const Key& key, Library library, std::string&, const Visit& visit, std::string_view fallback) {
  Json schema = reference_to(library, visit);
  if (!fallback.empty()) schema.add("default", text_of(fallback));
  add(key, std::move(schema));
}

void SchemaWriter::base(const Key& key, Library library, std::string&, const Visit& visit) {
  base_key_ = key.name;
  add(key, reference_to(library, visit));
}

void SchemaWriter::list(const Key& key, const Items& items, std::initializer_list<std::string_view> pair) {
  items.add({});
  Json item = nested([&](Fields& fields) { items.visit(fields, 0); }, false);
  if (pair.size() > 0) {
    const Json size = Json::make(static_cast<std::int64_t>(pair.size()));
    Json names = object_of({{"type", text_of("array")},
                            {"items", object_of({{"type", text_of("string")}})},
                            {"minItems", size},
                            {"maxItems", size}});
    item = any_of({std::move(names), std::move(item)});
  }
  add(key, object_of({{"type", text_of("array")}, {"items", std::move(item)}}));
}

void SchemaWriter::named(const Key& key, const Items& items) {
  items.add({});
  Json item = nested([&](Fields& fields) { items.visit(fields, 0); }, false);
  add(key, object_of({{"type", text_of("object")}, {"additionalProperties", std::move(item)}}));
}

void SchemaWriter::where(bool, std::string_view, const Visit& visit) {
  const bool outer = one_sort_;
  one_sort_ = true;
  visit(*this);
  one_sort_ = outer;
}

void SchemaWriter::only(const Key& key, std::int64_t value) { add(key, object_of({{"const", Json::make(value)}})); }

// Objects allow no further keys: what is not described is refused.
void SchemaWriter::unsupported(const Key&) {}

void SchemaWriter::choose(const Key& key, std::size_t& index, const std::vector<std::string_view>& names,
                          const std::vector<std::string_view>&) {
  add_with_default(key, object_of({{"enum", list_of(names)}}), index < names.size() ? text_of(names[index]) : Json{});
}

}  // namespace meshweave
