#include "runtime/api/gate/call.h"

#include <algorithm>
#include <utility>

#include "runtime/api/gate/credential.h"
#include "runtime/api/gate/names_only.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/private_paths.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sys.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

constexpr char kRequestId[] = "X-Request-ID";
constexpr size_t kMaxRequestId = 128;
constexpr size_t kMostOfArgument = 256;  // limit of an argument in the log

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Draws 1 KiB of random bytes at a time, because a getrandom(2) for each id takes 2 % of the time
// of a GET. Ids are no secrets, so unused bytes may stay in memory.
std::string FreshRequestId() {
  constexpr size_t kSize = 16, kDrawn = 1024;
  thread_local std::string drawn;
  if (drawn.empty()) drawn = sys::RandomBytes(kDrawn);
  std::string id = HexEncode(std::string_view(drawn).substr(drawn.size() - kSize));
  drawn.resize(drawn.size() - kSize);
  return id;
}

std::string RequestIdOf(const http::Request& request) {
  const std::string_view given = Trim(request.headers.Get(kRequestId));
  const bool usable =
      !given.empty() && given.size() <= kMaxRequestId &&
      std::all_of(given.begin(), given.end(), [](char c) { return c > ' ' && c <= '~'; });
  return usable ? std::string(given) : FreshRequestId();
}

}  // namespace

std::string Answering::Tellable(const std::string& text) const {
  std::string told = WithoutPaths(text, *private_directories);
  if (told == text) return told;
  LogLine(LogLevel::kWarning, "an error that a client is told without its paths")
      .Add("request", request_id)
      .Add("error", text);
  return told + " (the daemon's log has more under request " + request_id + ")";
}

http::Response Answering::Failure(const ApiError& error) const {
  ApiError told = error;
  told.message = Tellable(error.message);
  http::Response response = ErrorResponse(told);
  for (const http::Header& header : headers) response.headers.Set(header.name, header.value);
  return response;
}

Call::Call(std::shared_ptr<http::Exchange> exchange,
           const std::vector<std::string>& private_directories)
    : exchange_(std::move(exchange)),
      answering_{RequestIdOf(exchange_->request()), {}, &private_directories} {
  answering_.headers.push_back({kRequestId, answering_.request_id});
}

void Call::AllowOrigin() {
  const std::string_view origin = request().headers.Get("Origin");
  if (origin.empty()) return;
  answering_.headers.push_back({"Access-Control-Allow-Origin", std::string(origin)});
  answering_.headers.push_back({"Access-Control-Allow-Credentials", "true"});
  // Headers that clients read and that browsers hide from pages by default. The cursors are
  // execd's.
  answering_.headers.push_back({"Access-Control-Expose-Headers",
                                "OPEN-SANDBOX-ORIGIN, X-Request-ID, EXECD-COMMANDS-TAIL-CURSOR, "
                                "EXECD-ISOLATED-TAIL-CURSOR"});
  answering_.headers.push_back({"Vary", "Origin"});
}

std::string Call::Parameter(std::string_view name) const {
  std::string found;
  for (const auto& [key, value] : http::ParseQuery(request().query())) {
    if (key == name) found = value;
  }
  return found;
}

void Call::LogAnswer(std::string what, std::string who) {
  deed_ = std::make_shared<const Deed>(
      Deed{std::move(what), std::move(who), SystemClock().BootMicros()});
}

void Call::Log(int status, std::string_view code, std::string_view location) const {
  if (audit_) audit_->Answered(status, code, location.substr(location.rfind('/') + 1));
  if (!deed_) return;
  LogLine line(status >= 500 ? LogLevel::kWarning : LogLevel::kInfo, deed_->what);
  line.Add("by", deed_->who).Add("from", request().peer).Add("status", status);
  if (!code.empty()) line.Add("code", code);
  // Turns "{sandbox_id}" into "sandbox", the name of this field in the rest of the log.
  std::string_view pattern = deed_->what;
  for (const std::string& arg : args) {
    pattern.remove_prefix(std::min(pattern.find('{') + 1, pattern.size()));
    line.Add(pattern.substr(0, pattern.find_first_of(":}_")),
             WithoutTokens(arg).substr(0, kMostOfArgument));
  }
  if (const size_t last = location.rfind('/'); last != std::string_view::npos) {
    line.Add(location.starts_with("/v1/sandboxes/") ? "sandbox" : "made",
             location.substr(last + 1));
  }
  if (args.empty()) {
    if (const std::string name = Parameter("name"); !name.empty()) {
      line.Add("name", WithoutTokens(name).substr(0, kMostOfArgument));
    }
  }
  line.Add("request", request_id()).Add("took_us", SystemClock().BootMicros() - deed_->began_us);
}

void Call::Respond(http::Response response) const {
  if (caller_ && caller_->names_only) response = NamesOnly(std::move(response));
  Log(response.status, {}, response.headers.Get("Location"));
  Send(std::move(response));
}

void Call::Send(http::Response response) const {
  for (const http::Header& header : answering_.headers) {
    response.headers.Set(header.name, header.value);
  }
  exchange_->Respond(std::move(response));
}

std::shared_ptr<http::ResponseStream> Call::Stream(http::Response head) const {
  Log(head.status, {}, {});
  for (const http::Header& header : answering_.headers) {
    head.headers.Set(header.name, header.value);
  }
  return exchange_->Stream(std::move(head));
}

bool IsPreflight(const http::Request& request) {
  return request.method == "OPTIONS" && request.headers.Has("Origin") &&
         request.headers.Has("Access-Control-Request-Method");
}

http::Response PreflightResponse(const http::Request& request) {
  http::Response response;
  response.headers.Set("Content-Type", "text/plain; charset=utf-8");
  response.headers.Set("Access-Control-Allow-Methods",
                       "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");
  response.headers.Set("Access-Control-Max-Age", "600");
  const std::string_view asked = request.headers.Get("Access-Control-Request-Headers");
  if (!asked.empty()) response.headers.Set("Access-Control-Allow-Headers", std::string(asked));
  response.body = "OK";
  return response;
}

}  // namespace atl::api
