#include "sim/scenario/field_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/base/sha256.h"
#include "sim/scenario/library.h"

namespace meshweave {
namespace {

// "must be at least 1 (is 0)", for values that `write` makes readable.
template <class T, class Write>
std::string out_of_range(T value, const Range<T>& range, Write write) {
  const bool low = range.least != std::numeric_limits<T>::lowest();
  const bool high = range.most != std::numeric_limits<T>::max();
  std::string limits;
  if (low && range.above)
    limits = fmt::format("above {}", write(range.least));
  else if (low && !high)
    limits = fmt::format("at least {}", write(range.least));
  if (low && high) {
    limits = range.above ? fmt::format("{} and at most {}", limits, write(range.most))
                         : fmt::format("between {} and {}", write(range.least), write(range.most));
  } else if (high) {
    limits = fmt::format("at most {}", write(range.most));
  }
  return fmt::format("must be {} (is {})", limits, write(value));
}

std::string plain(std::int64_t value) { return fmt::format("{}", value); }
std::string plain_number(double value) { return fmt::format("{}", value); }

// "did you mean "x"?", or all candidates when they are few.
std::string hint_for(std::string_view name, const std::vector<std::string>& candidates, std::string_view noun) {
  if (const std::string nearest = nearest_name(name, candidates); !nearest.empty())
    return fmt::format("did you mean \"{}\"?", nearest);
  if (candidates.empty()) return {};
  return fmt::format("{}: {}", noun, fmt::join(candidates, ", "));
}

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 60;
  if (text.size() <= longest) return fmt::format("\"{}\"", text);
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
  return fmt::format("\"{}...\"", text.substr(0, end));
}

}  // namespace

FieldReader::FieldReader(Reading& reading, const InputFile& file, const Json& object, std::string pointer, bool overlay)
    : reading_(reading), file_(file), object_(object), pointer_(std::move(pointer)), overlay_(overlay) {}

void FieldReader::read(Reading& reading, const InputFile& file, const Visit& visit) {
  FieldReader reader(reading, file, file.root, "", false);
  visit(reader);
  reader.refuse_unknown_keys();
}

void FieldReader::read_entry(Reading& reading, Library library, std::string_view name, const Visit& visit) {
  const InputFile nowhere;
  FieldReader reader(reading, nowhere, nowhere.root, "", false);
  std::string ignored;
  reader.load_entry(library, std::string(name), "", ignored, visit);
}

const Json* FieldReader::take(const Key& key) {
  known_.emplace_back(key.name);
  const Json* value = object_.find(key.name);
  if (!owner_.empty()) {
    if (value) reading_.diagnostics.at_key(file_, pointer_of(key), fmt::format("belongs to {}", owner_));
    return nullptr;
  }
  if (!value && key.need == Need::required && !overlay_) {
    reading_.diagnostics.at_value(file_, pointer_, fmt::format("\"{}\" is missing ({})", key.name, key.meaning));
  }
  return value;
}

const Json* FieldReader::take(const Key& key, Json::Kind kind) {
  const Json* value = take(key);
  return value && expect(*value, kind, pointer_of(key)) ? value : nullptr;
}

bool FieldReader::expect(const Json& value, Json::Kind kind, const std::string& pointer) {
  if (value.kind == kind) return true;
  reading_.diagnostics.at_value(file_, pointer, fmt::format("expected {} (is {})", noun_of(kind), noun_of(value.kind)));
  return false;
}

void FieldReader::refuse(const Key& key, std::string message, std::string hint) {
  reading_.diagnostics.at_value(file_, pointer_of(key), std::move(message), std::move(hint));
}

bool FieldReader::read_integer(const Json& value, const std::string& pointer, const IntegerRange& range,
                               std::int64_t& result) {
  if (value.is(Json::Kind::number)) {
    // Json::make() keeps whole numbers up to 2^53 as integers: this one is a fraction or beyond them.
    const bool whole = value.number == std::floor(value.number);
    std::string message = fmt::format("expected an integer (is {})", value.number);
    if (whole) {
      message = range.most == std::numeric_limits<std::int64_t>::max()
                    ? fmt::format("must be at most {} (is {:g})", range.most, value.number)
                    : fmt::format("must be between {} and {} (is {:g})", range.least, range.most, value.number);
    }
    reading_.diagnostics.at_value(file_, pointer, std::move(message));
    return false;
  }
  if (!expect(value, Json::Kind::integer, pointer)) return false;
  if (!range.contains(value.integer)) {
    reading_.diagnostics.at_value(file_, pointer, out_of_range(value.integer, range, plain));
    return false;
  }
  result = value.integer;
  return true;
}

void FieldReader::integer(const Key& key, std::int64_t& value, const IntegerRange& range) {
  if (const Json* json = take(key)) read_integer(*json, pointer_of(key), range, value);
}

void FieldReader::number(const Key& key, double& value, const NumberRange& range) {
  const Json* json = take(key);
  if (!json) return;
  if (!json->is(Json::Kind::integer) && !expect(*json, Json::Kind::number, pointer_of(key))) return;
  if (!range.contains(json->number)) return refuse(key, out_of_range(json->number, range, plain_number));
  value = json->number;
}

void FieldReader::quantity(const Key& key, double& value, QuantityKind kind, const NumberRange& range) {
  const Json* json = take(key);
  if (!json) return;
  ParsedQuantity parsed;
  if (json->is(Json::Kind::string)) {
    parsed = parse_quantity(json->text, kind);
    if (!parsed.error.empty()) return refuse(key, std::move(parsed.error));
  } else if (json->is(Json::Kind::integer) || json->is(Json::Kind::number)) {
    if (json->number != 0)
      return refuse(key, fmt::format("{} has no unit (expected e.g. \"{}\")", json->number, example_quantity(kind)));
  } else {
    return refuse(key, fmt::format("expected a string with a unit, e.g. \"{}\" (is {})", example_quantity(kind),
                                   noun_of(json->kind)));
  }
  const auto write = [&](double v) { return format_quantity(v, kind); };
  if (!range.contains(parsed.value)) return refuse(key, out_of_range(parsed.value, range, write));
  value = parsed.value;
}

void FieldReader::flag(const Key& key, bool& value) {
  if (const Json* json = take(key, Json::Kind::boolean)) value = json->boolean;
}

void FieldReader::text(const Key& key, std::string& value) {
  if (const Json* json = take(key, Json::Kind::string)) value = json->text;
}

void FieldReader::integers(const Key& key, std::vector<int>& values, const IntegerRange& range, const Visit& instead) {
  const Json* json = take(key);
  if (!json) return;
  const std::string pointer = pointer_of(key);
  if (json->is(Json::Kind::object)) return read_object(*json, pointer, overlay_, instead);
  if (!expect(*json, Json::Kind::array, pointer)) return;
  values.clear();
  for (std::size_t i = 0; i < json->items.size(); ++i) {
    std::int64_t value = range.least;
    read_integer(json->items[i], pointer_to(pointer, i), range, value);
    values.push_back(static_cast<int>(value));
  }
}

void FieldReader::object(const Key& key, const Visit& visit, std::string_view shorthand) {
  const Json* json = take(key);
  if (!json) return;
  if ((json->is(Json::Kind::string) || json->is(Json::Kind::integer)) && !shorthand.empty()) {
    Json spelled_out = Json::make_object();
    spelled_out.add(shorthand, *json);
    return read_object(spelled_out, pointer_of(key), overlay_, visit);
  }
  if (!json->is(Json::Kind::object) && !shorthand.empty()) {
    reading_.diagnostics.at_value(
        file_, pointer_of(key),
        fmt::format("expected an object, or its \"{}\" alone (is {})", shorthand, noun_of(json->kind)));
    return;
  }
  read_object(*json, pointer_of(key), overlay_, visit);
}

void FieldReader::entry(const Key& key, Library library, std::string& name, const Visit& visit,
                        std::string_view fallback) {
  const Json* json = take(key);
  const std::string pointer = pointer_of(key);
  if (!json && (fallback.empty() || overlay_)) return;
  if (!json) return load_entry(library, std::string(fallback), pointer, name, visit);
  read_entry(*json, pointer, library, name, visit);
}

void FieldReader::base(const Key& key, Library library, std::string& name, const Visit& visit) {
  reference_ = key.name;
  if (const Json* json = take(key))
    read_entry(*json, pointer_of(key), library, name, visit);
  else if (!object_.find(misnamed_reference()))
    return;
  overlay_ = true;
}

// Modules name the entry that they start from by "zoo", all other objects by "base": the one in the other's place. It
// is a single mistake: what the entry would have given is not missing.
std::string_view FieldReader::misnamed_reference() const { return reference_ == base_key ? zoo_key : base_key; }

void FieldReader::list(const Key& key, const Items& items, std::initializer_list<std::string_view> pair) {
  const Json* json = take(key, Json::Kind::array);
  if (!json) return;
  items.clear();  // what a base gave
  for (std::size_t i = 0; i < json->items.size(); ++i) {
    items.add({});
    const Json& item = json->items[i];
    const std::string pointer = pointer_to(pointer_of(key), i);
    const auto visit = [&](Fields& fields) { items.visit(fields, items.size() - 1); };
    if (!item.is(Json::Kind::array) || pair.size() == 0) {
      read_object(item, pointer, false, visit);
    } else if (item.items.size() != pair.size()) {
      reading_.diagnostics.at_value(
          file_, pointer,
          fmt::format("expected [ {} ] or an object (has {})", fmt::join(pair, ", "), item.items.size()));
    } else {
      Json spelled_out = Json::make_object();
      for (std::size_t k = 0; k < pair.size(); ++k) spelled_out.add(pair.begin()[k], item.items[k]);
      read_object(spelled_out, pointer, false, visit);
    }
  }
}

void FieldReader::named(const Key& key, const Items& items) {
  const Json* json = take(key, Json::Kind::object);
  if (!json) return;
  items.clear();
  for (std::size_t i = 0; i < json->items.size(); ++i) {
    items.add(json->keys[i]);
    read_object(json->items[i], pointer_to(pointer_of(key), json->keys[i]), false,
                [&](Fields& fields) { items.visit(fields, items.size() - 1); });
  }
}

void FieldReader::where(bool applies, std::string_view owner, const Visit& visit) {
  const std::string_view outer = owner_;
  if (!applies && outer.empty()) owner_ = owner;
  visit(*this);
  owner_ = outer;
}

void FieldReader::only(const Key& key, std::int64_t value) {
  const Json* json = take(key);
  if (json && !(json->is(Json::Kind::integer) && json->integer == value))
    refuse(key, fmt::format("{} is not supported by this version (must be {})", key.meaning, value));
}

void FieldReader::unsupported(const Key& key) {
  if (take(key))
    reading_.diagnostics.at_key(file_, pointer_of(key),
                                fmt::format("{} is not supported by this version", key.meaning));
}

void FieldReader::choose(const Key& key, std::size_t& index, const std::vector<std::string_view>& names,
                         const std::vector<std::string_view>& later) {
  const Json* json = take(key, Json::Kind::string);
  if (!json) return;
  const auto at = std::find(names.begin(), names.end(), json->text);
  if (at != names.end()) {
    index = static_cast<std::size_t>(at - names.begin());
    return;
  }
  const std::string one_of = fmt::format("(one of {})", fmt::join(names, ", "));
  if (std::find(later.begin(), later.end(), json->text) != later.end())
    return refuse(key, fmt::format("\"{}\" is not supported by this version {}", json->text, one_of));
  const std::string nearest = nearest_name(json->text, {names.begin(), names.end()});
  refuse(key, fmt::format("unknown value {} {}", shown(json->text), one_of),
         nearest.empty() ? "" : fmt::format("did you mean \"{}\"?", nearest));
}

void FieldReader::read_object(const Json& value, const std::string& pointer, bool overlay, const Visit& visit) {
  if (value.is(Json::Kind::string)) return refuse_string(value, pointer, visit);
  if (!expect(value, Json::Kind::object, pointer)) return;
  FieldReader reader(reading_, file_, value, pointer, overlay);
  visit(reader);
  reader.refuse_unknown_keys();
}

// An object that may start from an entry is easily mistaken for the entry's name.
void FieldReader::refuse_string(const Json& value, const std::string& pointer, const Visit& visit) {
  Reading nothing;
  const Json empty = Json::make_object();
  FieldReader description(nothing, file_, empty, pointer, true);
  visit(description);
  const std::string_view key = description.reference_;
  reading_.diagnostics.at_value(
      file_, pointer, fmt::format("expected {} (is {})", noun_of(Json::Kind::object), noun_of(value.kind)),
      key.empty() ? "" : fmt::format("{{ \"{}\": {} }} starts from an entry", key, shown(value.text)));
}

void FieldReader::read_entry(const Json& value, const std::string& pointer, Library library, std::string& name,
                             const Visit& visit) {
  if (value.is(Json::Kind::string)) return load_entry(library, value.text, pointer, name, visit);
  if (!value.is(Json::Kind::object)) {
    reading_.diagnostics.at_value(
        file_, pointer,
        fmt::format("expected the name of a {} or an object (is {})", noun_of(library), noun_of(value.kind)));
    return;
  }
  FieldReader reader(reading_, file_, value, pointer, overlay_);
  reader.reference_ = base_key;
  if (const Json* base = reader.take({base_key, "", Need::absent})) {
    const std::string at = pointer_to(pointer, base_key);
    if (expect(*base, Json::Kind::string, at)) load_entry(library, base->text, at, name, visit);
    reader.overlay_ = true;
  }
  if (value.find(reader.misnamed_reference())) reader.overlay_ = true;
  visit(reader);
  reader.refuse_unknown_keys();
}

void FieldReader::load_entry(Library library, const std::string& entry, const std::string& pointer, std::string& name,
                             const Visit& visit) {
  const std::vector<std::string> names = names_in(library);
  if (std::find(names.begin(), names.end(), entry) == names.end()) {
    reading_.diagnostics.at_value(
        file_, pointer, fmt::format("there is no {} {} in {}", noun_of(library), shown(entry), folder_of(library)),
        hint_for(entry, names, "known"));
    return;
  }
  const std::string file_name = fmt::format("{}/{}.json", folder_of(library), entry);
  std::vector<std::string>& open = reading_.open_entries;
  if (const auto loop = std::find(open.begin(), open.end(), file_name); loop != open.end()) {
    reading_.diagnostics.at_value(
        file_, pointer,
        fmt::format("the references form a loop: {} -> {}", fmt::join(loop, open.end(), " -> "), file_name));
    return;
  }
  InputFile file;
  file.name = path_of(library, entry);
  file.text = read_text_file(file.name);
  if (std::none_of(reading_.inputs.begin(), reading_.inputs.end(), [&](const auto& i) { return i.first == file_name; }))
    reading_.inputs.emplace_back(file_name, sha256(file.text));
  if (!parse_input(file, reading_.diagnostics)) return;
  open.push_back(file_name);
  FieldReader(reading_, file, file.root, "", false).read_entry(file.root, "", library, name, visit);
  open.pop_back();
  name = entry;
}

void FieldReader::refuse_unknown_keys() {
  for (const std::string& key : object_.keys) {
    if (reading_.diagnostics.full()) return;
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const bool misnamed = !reference_.empty() && key == misnamed_reference();
    reading_.diagnostics.at_key(file_, pointer_to(pointer_, key), "unknown key",
                                misnamed ? fmt::format("here \"{}\" names the entry to start from", reference_)
                                         : hint_for(key, known_, "known keys"));
  }
}

}  // namespace meshweave
