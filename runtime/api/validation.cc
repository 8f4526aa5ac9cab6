#include "runtime/api/validation.h"

#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "runtime/api/json.h"

namespace atl::api {
namespace {

using nlohmann::json;

// A refusal must not become an amplifier.
constexpr size_t kMaxProblems = 32;
constexpr size_t kMaxInputShown = 1024;

std::optional<int64_t> ParseDigits(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || rest != end) return std::nullopt;
  return value;
}

std::string LocText(const json& loc) {
  std::string text;
  for (const json& part : loc) {
    if (!text.empty()) text.push_back('.');
    text += part.is_string() ? part.get<std::string>() : part.dump();
  }
  return text;
}

}  // namespace

void Problems::Add(Problem problem) {
  if (list_.size() < kMaxProblems) list_.push_back(std::move(problem));
}

http::Response Problems::ToResponse() const {
  json detail = json::array();
  for (const Problem& problem : list_) {
    std::string input = Dump(problem.input);
    json item = {{"type", problem.type}, {"loc", problem.loc}, {"msg", problem.msg}};
    if (input.size() <= kMaxInputShown) {
      item["input"] = problem.input;
    } else {
      item["input"] = "(" + std::to_string(input.size()) + " bytes)";
    }
    if (!problem.ctx.is_null()) item["ctx"] = problem.ctx;
    detail.push_back(std::move(item));
  }
  std::string message = "the request is not valid";
  if (!list_.empty()) {
    message = LocText(list_.front().loc) + ": " + list_.front().msg;
    if (list_.size() > 1) message += " (and " + std::to_string(list_.size() - 1) + " more)";
  }
  return JsonResponse(422, {{"detail", std::move(detail)},
                            {"code", "GENERAL::INVALID_REQUEST"},
                            {"message", std::move(message)}});
}

Field Field::At(const std::string& name) const {
  json loc = loc_;
  loc.push_back(name);
  const json* member = nullptr;
  if (value_ != nullptr && value_->is_object()) {
    const auto found = value_->find(name);
    if (found != value_->end()) member = &*found;
  }
  return Field(member, std::move(loc), problems_, value_);
}

void Field::Complain(std::string type, std::string msg, json ctx) const {
  problems_->Add({std::move(type), loc_, std::move(msg), value_ != nullptr ? *value_ : json(),
                  std::move(ctx)});
}

void Field::Missing() const {
  problems_->Add({"missing", loc_, "Field required", parent_ != nullptr ? *parent_ : json(), {}});
}

void Field::BreaksRule(const std::string& rule) const {
  Complain("value_error", "Value error, " + rule, {{"error", json::object()}});
}

bool Field::IsObject() const {
  if (!present()) return false;
  if (value_->is_object()) return true;
  Complain("model_attributes_type",
           "Input should be a valid dictionary or object to extract fields from");
  return false;
}

bool Field::String(std::string* out) const {
  if (!present()) return false;
  if (!value_->is_string()) {
    Complain("string_type", "Input should be a valid string");
    return false;
  }
  *out = value_->get<std::string>();
  return true;
}

bool Field::Bool(bool* out) const {
  if (!present()) return false;
  if (value_->is_boolean()) {
    *out = value_->get<bool>();
    return true;
  }
  Complain("bool_type", "Input should be a valid boolean");
  return false;
}

bool Field::Integer(int64_t* out) const {
  if (!present()) return false;
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > INT64_MAX) {
    Complain("int_parsing_size", "Input should be a valid integer, it is too large");
    return false;
  }
  if (value_->is_number_integer()) {
    *out = value_->get<int64_t>();
    return true;
  }
  if (value_->is_number_float()) {
    const double number = value_->get<double>();
    // 2^53: above it not every whole number is a double.
    if (std::floor(number) == number && std::abs(number) <= 9007199254740992.0) {
      *out = static_cast<int64_t>(number);
      return true;
    }
    Complain("int_from_float",
             "Input should be a valid integer, got a number with a fractional part");
    return false;
  }
  if (value_->is_string()) {
    if (const auto number = ParseDigits(value_->get_ref<const std::string&>())) {
      *out = *number;
      return true;
    }
    Complain("int_parsing",
             "Input should be a valid integer, unable to parse string as an integer");
    return false;
  }
  Complain("int_type", "Input should be a valid integer");
  return false;
}

bool Field::Strings(size_t min, std::vector<std::string>* out) const {
  if (!present()) return false;
  if (!value_->is_array()) {
    Complain("list_type", "Input should be a valid list");
    return false;
  }
  if (value_->size() < min) {
    Complain("too_short",
             "List should have at least " + std::to_string(min) + " item after validation, not " +
                 std::to_string(value_->size()),
             {{"field_type", "List"}, {"min_length", min}, {"actual_length", value_->size()}});
    return false;
  }
  bool good = true;
  for (size_t i = 0; i < value_->size(); ++i) {
    json loc = loc_;
    loc.push_back(i);
    const Field element((*value_)[i], std::move(loc), problems_);
    std::string text;
    if (!element.present()) element.Complain("string_type", "Input should be a valid string");
    good = element.String(&text) && good;
    out->push_back(std::move(text));
  }
  return good;
}

bool Field::StringMap(bool drop_nulls, std::map<std::string, std::string>* out) const {
  if (!present()) return false;
  if (!value_->is_object()) {
    Complain("dict_type", "Input should be a valid dictionary");
    return false;
  }
  bool good = true;
  for (const auto& [name, value] : value_->items()) {
    if (value.is_null() && drop_nulls) continue;
    json loc = loc_;
    loc.push_back(name);
    const Field element(value, std::move(loc), problems_);
    if (!element.present()) element.Complain("string_type", "Input should be a valid string");
    std::string text;
    good = element.String(&text) && good;
    (*out)[name] = std::move(text);
  }
  return good;
}

bool ParseInteger(const std::string& text, const json& loc, int64_t min, int64_t max,
                  Problems* problems, int64_t* out) {
  const auto number = ParseDigits(text);
  if (!number) {
    problems->Add({"int_parsing", loc,
                   "Input should be a valid integer, unable to parse string as an integer", text,
                   {}});
    return false;
  }
  if (*number < min) {
    problems->Add({"greater_than_equal", loc,
                   "Input should be greater than or equal to " + std::to_string(min), text,
                   {{"ge", min}}});
    return false;
  }
  if (*number > max) {
    problems->Add({"less_than_equal", loc,
                   "Input should be less than or equal to " + std::to_string(max), text,
                   {{"le", max}}});
    return false;
  }
  *out = *number;
  return true;
}

}  // namespace atl::api
