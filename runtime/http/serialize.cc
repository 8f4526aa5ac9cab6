#include "runtime/http/serialize.h"

#include <charconv>
#include <ctime>
#include <utility>

namespace atl::http {
namespace {

constexpr std::pair<int, std::string_view> kReasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {103, "Early Hints"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

}  // namespace

std::string_view ReasonPhrase(int status) {
  for (const auto& [code, reason] : kReasons) {
    if (code == status) return reason;
  }
  return "Status";
}

void AppendStatusLine(int status, std::string_view reason, std::string* out) {
  out->append("HTTP/1.1 ");
  out->append(std::to_string(status));
  out->push_back(' ');
  out->append(reason.empty() ? ReasonPhrase(status) : reason);
  out->append("\r\n");
}

void AppendField(std::string_view name, std::string_view value, std::string* out) {
  out->append(name);
  out->append(": ");
  out->append(value);
  out->append("\r\n");
}

void AppendNumberField(std::string_view name, uint64_t value, std::string* out) {
  AppendField(name, std::to_string(value), out);
}

void AppendChunkSize(size_t size, std::string* out) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, size, 16).ptr;
  out->append(digits, static_cast<size_t>(end - digits));
  out->append("\r\n");
}

std::string_view DateField() {
  static time_t formatted_at = 0;
  static char text[64];
  static size_t length = 0;
  const time_t now = time(nullptr);
  if (now != formatted_at) {
    tm utc{};
    gmtime_r(&now, &utc);
    length = strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &utc);
    formatted_at = now;
  }
  return {text, length};
}

Response ErrorResponse(int status, std::string_view code, std::string_view message) {
  Response response;
  response.status = status;
  response.headers.Add("Content-Type", "application/json");
  response.body.append(R"({"code":")").append(code).append(R"(","message":")").append(message);
  response.body.append(R"("})");
  return response;
}

}  // namespace atl::http
