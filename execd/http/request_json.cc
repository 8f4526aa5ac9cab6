#include "execd/http/request_json.h"

namespace atl::execd {
Result<std::string> TextMember(const JsonValue& object, std::string_view name) {
  const JsonValue value = object.Find(name);
  if (!value.present() || value.is(JsonType::kNull)) return std::string();
  if (!value.is(JsonType::kString)) {
    return Fail(Code::kInvalidArgument, std::string(name) + ": must be a string");
  }
  if (value.text().find('\0') != std::string_view::npos) {
    return Fail(Code::kInvalidArgument, std::string(name) + ": holds a NUL character");
  }
  return std::string(value.text());
}

Result<int64_t> IntegerMember(const JsonValue& object, std::string_view name, int64_t low,
                              int64_t high, int64_t absent) {
  const JsonValue value = object.Find(name);
  if (!value.present() || value.is(JsonType::kNull)) return absent;
  if (!value.is(JsonType::kInteger) || value.integer() < low || value.integer() > high) {
    return Fail(Code::kInvalidArgument, std::string(name) + ": must be an integer from " +
                                            std::to_string(low) + " to " + std::to_string(high));
  }
  return value.integer();
}

Result<JsonDocument> ParseObject(std::string body, bool may_be_empty) {
  if (may_be_empty && body.find_first_not_of(" \t\r\n") == std::string::npos) body = "{}";
  ATOLL_ASSIGN(JsonDocument document, JsonDocument::Parse(std::move(body)));
  if (!document.root().is(JsonType::kObject)) {
    return Fail(Code::kInvalidArgument, "body: must be a JSON object");
  }
  return document;
}

}  // namespace atl::execd
