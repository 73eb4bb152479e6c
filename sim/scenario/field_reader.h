// Fills the values of a field description from a JSON object; goes on after a mistake, so that one reading finds all.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/scenario/fields.h"
#include "sim/scenario/input_file.h"

namespace meshweave {

// What the reading of a file and of the entries that it refers to share.
struct Reading {
  Diagnostics diagnostics;
  std::vector<std::pair<std::string, std::string>> inputs;  // file, SHA-256 of its content
  std::vector<std::string> open_entries;                    // entries being read, outermost first
};

class FieldReader : public Fields {
 public:
  // Reads the object `file.root`.
  static void read(Reading& reading, const InputFile& file, const Visit& visit);
  // Reads the entry `name` of a library on its own; throws InputError when there is none.
  static void read_entry(Reading& reading, Library library, std::string_view name, const Visit& visit);

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
  // `overlay`: a base entry has given the required fields already.
  FieldReader(Reading& reading, const InputFile& file, const Json& object, std::string pointer, bool overlay);

  const Json* take(const Key& key);                   // null when absent; reports a required key that is missing
  const Json* take(const Key& key, Json::Kind kind);  // the same, and null after reporting another kind
  bool expect(const Json& value, Json::Kind kind, const std::string& pointer);
  void refuse(const Key& key, std::string message, std::string hint = {});
  std::string pointer_of(const Key& key) const { return pointer_to(pointer_, key.name); }
  void read_object(const Json& value, const std::string& pointer, bool overlay, const Visit& visit);
  void refuse_string(const Json& value, const std::string& pointer, const Visit& visit);
  void read_entry(const Json& value, const std::string& pointer, Library library, std::string& name,
                  const Visit& visit);
  void load_entry(Library library, const std::string& entry, const std::string& pointer, std::string& name,
                  const Visit& visit);
  std::string_view misnamed_reference() const;
  bool read_integer(const Json& value, const std::string& pointer, const IntegerRange& range, std::int64_t& result);
  void refuse_unknown_keys();

  Reading& reading_;
  const InputFile& file_;
  const Json& object_;
  std::string pointer_;
  bool overlay_;
  std::string_view reference_;  // the key by which this object names an entry that it starts from; empty for none
  std::string_view owner_;      // of the fields that are visited and do not apply here; empty where they do
  std::vector<std::string> known_;
};

}  // namespace meshweave
