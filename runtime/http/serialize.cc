#include "runtime/http/serialize.h"

#include <charconv>
#include <ctime>

namespace atl::http {

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 101:
      return "Switching Protocols";
    case 103:
      return "Early Hints";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
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
