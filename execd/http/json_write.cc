#include <charconv>
#include <cmath>

#include "execd/http/json.h"
#include "runtime/base/utc_time.h"
#include "runtime/base/utf8.h"

namespace atl::execd {
namespace {

bool Plain(unsigned char c) {
  return c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&';
}

void AppendEscapedAscii(std::string* out, char c) {
  switch (c) {
    case '"':
      out->append("\\\"");
      return;
    case '\\':
      out->append("\\\\");
      return;
    case '\n':
      out->append("\\n");
      return;
    case '\r':
      out->append("\\r");
      return;
    case '\t':
      out->append("\\t");
      return;
    default:
      break;
  }
  static constexpr char kHex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  const char escape[6] = {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
  out->append(escape, sizeof escape);
}

}  // namespace

void AppendJsonString(std::string* out, std::string_view text) {
  out->push_back('"');
  AppendJsonText(out, text);
  out->push_back('"');
}

void AppendJsonText(std::string* out, std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    size_t run = at;
    while (run < text.size() && Plain(static_cast<unsigned char>(text[run]))) ++run;
    out->append(text.substr(at, run - at));
    at = run;
    if (at == text.size()) break;
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      AppendEscapedAscii(out, text[at++]);
      continue;
    }
    const size_t length = FirstUtf8(text.substr(at)).length;
    const std::string_view sequence = text.substr(at, length == 0 ? 1 : length);
    if (length == 0) {
      out->append("\\ufffd");
    } else if (sequence == "\xE2\x80\xA8") {
      out->append("\\u2028");
    } else if (sequence == "\xE2\x80\xA9") {
      out->append("\\u2029");
    } else {
      out->append(sequence);
    }
    at += sequence.size();
  }
}

void AppendJsonInteger(std::string* out, int64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out->append(digits, static_cast<size_t>(end - digits));
}

// Recursion is bounded, because the depth of documents is.
void AppendJsonValue(std::string* out, const JsonValue& value) {
  if (!value.present()) {
    out->append("null");
    return;
  }
  const JsonType type = value.type();
  switch (type) {
    case JsonType::kNull:
      out->append("null");
      return;
    case JsonType::kBool:
      out->append(value.boolean() ? "true" : "false");
      return;
    case JsonType::kInteger:
      AppendJsonInteger(out, value.integer());
      return;
    case JsonType::kNumber:
      out->append(value.literal());
      return;
    case JsonType::kString:
      AppendJsonString(out, value.text());
      return;
    case JsonType::kArray:
    case JsonType::kObject:
      break;
  }
  const bool object = type == JsonType::kObject;
  char before = object ? '{' : '[';
  if (!value.first().present()) out->push_back(before);
  for (JsonValue item = value.first(); item.present(); item = item.next()) {
    out->push_back(before);
    before = ',';
    if (object) {
      AppendJsonString(out, item.name());
      out->push_back(':');
    }
    AppendJsonValue(out, item);
  }
  out->push_back(object ? '}' : ']');
}

void AppendJsonDecimal(std::string* out, double value) {
  // Uses integers. Floating point in printf or to_chars would be linked for this alone.
  if (!(value > -9e15 && value < 9e15)) value = 0;
  const int64_t thousandths = static_cast<int64_t>(std::lround(value * 1000));
  if (thousandths < 0) out->push_back('-');
  const int64_t magnitude = thousandths < 0 ? -thousandths : thousandths;
  AppendJsonInteger(out, magnitude / 1000);
  const int64_t fraction = magnitude % 1000;
  if (fraction == 0) return;
  const char digits[4] = {'.', static_cast<char>('0' + fraction / 100),
                          static_cast<char>('0' + fraction / 10 % 10),
                          static_cast<char>('0' + fraction % 10)};
  size_t size = 4;
  while (digits[size - 1] == '0') --size;
  out->append(digits, size);
}

void AppendJsonTime(std::string* out, int64_t unix_seconds, int64_t nanoseconds) {
  size_t digits = nanoseconds == 0 ? 0 : 9;
  for (int64_t left = nanoseconds; digits > 0 && left % 10 == 0; left /= 10) --digits;
  out->push_back('"');
  out->append(UtcTime(unix_seconds, nanoseconds, digits).text());
  out->push_back('"');
}

}  // namespace atl::execd
