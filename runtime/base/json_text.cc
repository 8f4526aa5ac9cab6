#include "runtime/base/json_text.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace atl {
namespace {

using nlohmann::json;

// Returns true if brackets outside of strings are nested deeper than `most`. The text need not be
// JSON. A callback of the parser for each value would take three times as long.
bool NestsDeeper(std::string_view text, size_t most) {
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      if (++depth > most) return true;
    } else if (!quoted && (c == ']' || c == '}')) {
      if (depth > 0) --depth;
    }
  }
  return false;
}

// The library's own callback parser takes the square of the number of siblings.
class MemberReader final : public nlohmann::json_sax<json> {
 public:
  explicit MemberReader(const std::function<void(const std::string&, json)>& visit)
      : visit_(visit) {}
  bool ended() const { return ended_; }

  bool null() override { return Scalar(nullptr); }
  bool boolean(bool value) override { return Scalar(value); }
  bool number_integer(json::number_integer_t value) override { return Scalar(value); }
  bool number_unsigned(json::number_unsigned_t value) override { return Scalar(value); }
  bool number_float(json::number_float_t value, const std::string&) override {
    return Scalar(value);
  }
  bool string(std::string& value) override { return Scalar(std::move(value)); }
  bool binary(json::binary_t&) override { return false; }
  bool start_object(size_t) override { return Begin(json::object()); }
  bool start_array(size_t) override { return Begin(json::array()); }
  bool end_object() override { return End(); }
  bool end_array() override { return End(); }
  bool key(std::string& name) override {
    if (depth_ == 1) name_ = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

 private:
  bool Scalar(json value) {
    if (depth_ == 1) visit_(name_, std::move(value));
    if (depth_ == 2 && member_.is_array()) member_.push_back(std::move(value));
    return true;
  }
  bool Begin(json empty) {
    if (depth_ == 0) object_ = empty.is_object();
    if (depth_ == 1)
      member_ = std::move(empty);
    else if (depth_ == 2 && member_.is_array())
      member_.push_back(nullptr);
    ++depth_;
    return true;
  }
  bool End() {
    --depth_;
    if (depth_ == 1) visit_(name_, std::move(member_));
    if (depth_ == 0) ended_ = object_;
    return true;
  }

  const std::function<void(const std::string&, json)>& visit_;
  std::string name_;
  json member_;  // the array or object that is being read
  size_t depth_ = 0;
  bool object_ = false;
  bool ended_ = false;
};

template <typename Value>
std::string OnOneLine(const Value& value) {
  return value.dump(-1, ' ', false, Value::error_handler_t::replace);
}

}  // namespace

Result<json> ParseJson(std::string_view text, size_t most_levels, size_t* at) {
  size_t nowhere = 0;
  size_t& where = at == nullptr ? nowhere : *at;
  where = 0;
  if (NestsDeeper(text, most_levels)) {
    return Fail(Code::kInvalidArgument,
                "nested deeper than " + std::to_string(most_levels) + " levels");
  }
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    // The library's message repeats bytes of the input.
    where = error.byte == 0 ? 0 : error.byte - 1;
    return Fail(Code::kInvalidArgument, "not JSON at byte " + std::to_string(error.byte));
  } catch (const json::exception&) {
    // This message repeats the number, however long it is.
    return Fail(Code::kInvalidArgument, "a number is out of range");
  }
}

json JsonOrNull(std::string_view text) {
  constexpr size_t kMostLevels = 1000;
  return ParseJson(text, kMostLevels).value_or(json());
}

ObjectText VisitMembers(std::string_view text,
                        const std::function<void(const std::string& name, json value)>& visit) {
  MemberReader reader(visit);
  const bool whole = json::sax_parse(text.begin(), text.end(), &reader);
  if (!reader.ended()) return ObjectText::kNone;
  // The parser takes a NUL for the end of the text.
  const bool cut = text.find('\0') != std::string_view::npos;
  return !whole || cut ? ObjectText::kTrailing : ObjectText::kWhole;
}

std::string JsonText(const json& value) {
  return OnOneLine(value);
}

std::string PrettyJson(const json& value) {
  return value.dump(2, ' ', true, json::error_handler_t::replace);
}

std::string OrderedJsonText(const nlohmann::ordered_json& value) {
  return OnOneLine(value);
}

}  // namespace atl
