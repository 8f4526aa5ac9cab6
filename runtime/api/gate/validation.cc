#include "runtime/api/gate/validation.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "runtime/api/gate/json.h"
#include "runtime/api/gate/secret_name.h"
#include "runtime/base/json_text.h"

namespace atl::api {
namespace {

using nlohmann::json;

// Keeps a refusal from amplifying a request.
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

// A secret is recognised by its name, at any depth. Refusals end up in logs, and a request that is
// refused for its form may contain a secret anywhere, even under a misspelt name.
bool IsSecret(std::string name) {
  std::erase_if(name, [](char c) { return c == '_' || c == '-'; });
  return IsSecretName(name);
}

void Hide(json* value) {
  // The text may be JSON or NAME=VALUE.
  if (value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    if (text.find_first_of("{=:") != std::string::npos && IsSecret(text)) *value = kHidden;
  }
  if (value->is_array()) {
    for (json& element : *value) Hide(&element);
  }
  if (!value->is_object()) return;
  for (auto member = value->begin(); member != value->end(); ++member) {
    if (IsSecret(member.key())) {
      *member = kHidden;
    } else {
      Hide(&*member);
    }
  }
}

// Subtracts from `left` the least that the text of `value` takes. Returns false as soon as that is
// more than `left`, so that a large value costs no more than a small one.
bool IsWithin(const json& value, size_t* left) {
  const auto take = [left](size_t bytes) {
    if (bytes > *left) return false;
    *left -= bytes;
    return true;
  };
  if (value.is_string()) return take(value.get_ref<const std::string&>().size() + 2);
  if (!value.is_structured()) return take(1);
  if (!take(value.size() + 1)) return false;
  for (auto member = value.begin(); member != value.end(); ++member) {
    if (value.is_object() && !take(member.key().size() + 3)) return false;
    if (!IsWithin(*member, left)) return false;
  }
  return true;
}

// Returns the refused value as JSON, with secrets hidden.
std::string Shown(const json* value, const Location& loc) {
  if (value == nullptr) return "null";
  for (const auto& part : loc) {
    const auto* name = std::get_if<std::string>(&part);
    if (name != nullptr && IsSecret(*name)) return JsonText(kHidden);
  }
  size_t left = kMaxInputShown;
  if (!IsWithin(*value, &left)) {
    return JsonText("(more than " + std::to_string(kMaxInputShown) + " bytes)");
  }
  json shown = *value;
  Hide(&shown);
  return JsonText(shown);
}

json LocJson(const Location& loc) {
  json list = json::array();
  for (const auto& part : loc) {
    std::visit([&](const auto& value) { list.push_back(value); }, part);
  }
  return list;
}

std::string LocText(const Location& loc) {
  std::string text;
  for (const auto& part : loc) {
    if (!text.empty()) text.push_back('.');
    const auto* index = std::get_if<size_t>(&part);
    text += index != nullptr ? std::to_string(*index) : std::get<std::string>(part);
  }
  return text;
}

}  // namespace

void Problems::Add(Problem problem) {
  if (!full()) list_.push_back(std::move(problem));
}

http::Response Problems::ToResponse() const {
  json detail = json::array();
  for (const Problem& problem : list_) {
    json item = {{"type", problem.type}, {"loc", LocJson(problem.loc)}, {"msg", problem.msg}};
    if (problem.input.size() <= kMaxInputShown) {
      item["input"] = JsonOrNull(problem.input);
    } else {
      item["input"] = "(" + std::to_string(problem.input.size()) + " bytes)";
    }
    if (!problem.ctx.empty()) item["ctx"] = JsonOrNull(problem.ctx);
    detail.push_back(std::move(item));
  }
  std::string message = "the request is not valid";
  if (!list_.empty()) {
    message = LocText(list_.front().loc) + ": " + list_.front().msg;
    if (list_.size() > 1) {
      message += full() ? " (and at least " : " (and ";
      message += std::to_string(list_.size() - 1) + " more)";
    }
  }
  return JsonResponse(422, {{"detail", std::move(detail)},
                            {"code", "GENERAL::INVALID_REQUEST"},
                            {"message", std::move(message)}});
}

Field Field::At(const std::string& name) const {
  Location loc = loc_;
  loc.emplace_back(name);
  const json* member = nullptr;
  if (value_ != nullptr && value_->is_object()) {
    const auto found = value_->find(name);
    if (found != value_->end()) member = &*found;
  }
  return Field(member, std::move(loc), problems_, value_);
}

Field Field::Element(size_t index) const {
  Location loc = loc_;
  loc.emplace_back(index);
  return Field(&(*value_)[index], std::move(loc), problems_, value_);
}

bool Field::present() const {
  return value_ != nullptr && !value_->is_null();
}

void Field::Complain(std::string type, std::string msg, std::string ctx) const {
  if (problems_->full()) return;
  problems_->Add({std::move(type), loc_, std::move(msg), Shown(value_, loc_), std::move(ctx)});
}

void Field::Missing() const {
  if (problems_->full()) return;
  const Location parent(loc_.begin(), loc_.end() - 1);
  problems_->Add({"missing", loc_, "Field required", Shown(parent_, parent), {}});
}

void Field::BreaksRule(const std::string& rule) const {
  Complain("value_error", "Value error, " + rule, R"({"error":{}})");
}

bool Field::IsObject() const {
  if (!present()) return false;
  if (value_->is_object()) return true;
  Complain("model_attributes_type",
           "Input should be a valid dictionary or object to extract fields from");
  return false;
}

bool Field::IsRequiredObject() const {
  if (!present()) Missing();
  return IsObject();
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

bool Field::Word(std::string* out) const {
  if (!String(out)) return false;
  if (!out->empty()) return true;
  Complain("string_too_short", "String should have at least 1 character",
           JsonText({{"min_length", 1}}));
  return false;
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
    // 2^53: above it a double cannot represent every whole number.
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
    Complain(
        "too_short",
        "List should have at least " + std::to_string(min) + " item after validation, not " +
            std::to_string(value_->size()),
        JsonText({{"field_type", "List"}, {"min_length", min}, {"actual_length", value_->size()}}));
    return false;
  }
  bool good = true;
  for (size_t i = 0; i < value_->size(); ++i) {
    if (problems_->full()) return false;
    Location loc = loc_;
    loc.emplace_back(i);
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
    if (problems_->full()) return false;
    if (value.is_null() && drop_nulls) continue;
    Location loc = loc_;
    loc.emplace_back(name);
    const Field element(value, std::move(loc), problems_);
    if (!element.present()) element.Complain("string_type", "Input should be a valid string");
    std::string text;
    good = element.String(&text) && good;
    (*out)[name] = std::move(text);
  }
  return good;
}

bool ParseInteger(const std::string& text, const Location& loc, int64_t min, int64_t max,
                  Problems* problems, int64_t* out) {
  const auto number = ParseDigits(text);
  if (!number) {
    problems->Add({"int_parsing",
                   loc,
                   "Input should be a valid integer, unable to parse string as an integer",
                   JsonText(text),
                   {}});
    return false;
  }
  if (*number < min) {
    problems->Add({"greater_than_equal", loc,
                   "Input should be greater than or equal to " + std::to_string(min),
                   JsonText(text), JsonText({{"ge", min}})});
    return false;
  }
  if (*number > max) {
    problems->Add({"less_than_equal", loc,
                   "Input should be less than or equal to " + std::to_string(max), JsonText(text),
                   JsonText({{"le", max}})});
    return false;
  }
  *out = *number;
  return true;
}

}  // namespace atl::api
