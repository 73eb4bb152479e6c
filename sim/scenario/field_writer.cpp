#include "sim/scenario/field_writer.h"

namespace meshweave {

// A value that its key does not allow stands for an absent one; it is left out.

Json FieldWriter::write(const Visit& visit) {
  FieldWriter writer;
  visit(writer);
  return std::move(writer.object_);
}

void FieldWriter::integer(const Key& key, std::int64_t& value, const IntegerRange& range) {
  if (range.contains(value)) add(key, Json::make(value));
}

void FieldWriter::number(const Key& key, double& value, const NumberRange& range) {
  if (range.contains(value)) add(key, Json::make(value));
}

void FieldWriter::quantity(const Key& key, double& value, QuantityKind kind, const NumberRange& range) {
  if (range.contains(value)) add(key, Json::make(std::string_view(format_quantity_exactly(value, kind))));
}

void FieldWriter::flag(const Key& key, bool& value) { add(key, Json::make(value)); }

void FieldWriter::text(const Key& key, std::string& value) {
  if (!value.empty()) add(key, Json::make(std::string_view(value)));
}

void FieldWriter::integers(const Key& key, std::vector<int>& values, const IntegerRange&, const Visit&) {
  Json list = Json::make_array();
  for (const int value : values) list.items.push_back(Json::make(std::int64_t{value}));
  add(key, std::move(list));
}

void FieldWriter::object(const Key& key, const Visit& visit, std::string_view) {
  Json nested = write(visit);
  if (!nested.items.empty()) add(key, std::move(nested));
}

void FieldWriter::entry(const Key& key, Library, std::string&, const Visit& visit, std::string_view) {
  add(key, write(visit));
}

// The fields that follow are written with their values: no base is needed.
void FieldWriter::base(const Key&, Library, std::string&, const Visit&) {}

void FieldWriter::list(const Key& key, const Items& items, std::initializer_list<std::string_view>) {
  Json list = Json::make_array();
  for (std::size_t i = 0; i < items.size(); ++i)
    list.items.push_back(write([&](Fields& fields) { items.visit(fields, i); }));
  add(key, std::move(list));
}

void FieldWriter::named(const Key& key, const Items& items) {
  Json object = Json::make_object();
  for (std::size_t i = 0; i < items.size(); ++i)
    object.add(items.name(i), write([&](Fields& fields) { items.visit(fields, i); }));
  add(key, std::move(object));
}

void FieldWriter::where(bool applies, std::string_view, const Visit& visit) {
  const bool outer = applies_;
  applies_ = outer && applies;
  visit(*this);
  applies_ = outer;
}

void FieldWriter::only(const Key&, std::int64_t) {}
void FieldWriter::unsupported(const Key&) {}

void FieldWriter::choose(const Key& key, std::size_t& index, const std::vector<std::string_view>& names,
                         const std::vector<std::string_view>&) {
  if (index < names.size()) add(key, Json::make(names[index]));
}

}  // namespace meshweave
