#include "tools/atoll/client/api.h"

#include <poll.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/json_text.h"
#include "runtime/http/base_url.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

Code CodeOf(int status, const std::string& text) {
  // Bad content of an archive or a snapshot is no usage error.
  for (const char* of_content : {"::INVALID_ARCHIVE)", "::NOT_EXPORTABLE)"}) {
    if (text.ends_with(of_content)) return Code::kFailedPrecondition;
  }
  if (status == 404) return Code::kNotFound;
  if (status == 401 || status == 403) return Code::kPermissionDenied;
  if (status == 409) return Code::kFailedPrecondition;
  if (status == 429) return Code::kResourceExhausted;
  return status < 500 ? Code::kInvalidArgument : Code::kInternal;
}

// Returns the seconds after which a request that came too fast may come again; 0: it did not, or
// the server does not say.
int RestBefore(const http::Response& response) {
  if (response.status != 429) return 0;
  const std::string_view text = response.headers.Get("retry-after");
  int seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return error == std::errc() && end == text.data() + text.size() ? std::max(seconds, 0) : 0;
}

}  // namespace

std::string ErrorText(int status, const std::string& body) {
  const auto told = JsonOrNull(body);
  if (told.is_object() && told.contains("message") && told["message"].is_string()) {
    std::string text = told["message"].get<std::string>();
    if (told.contains("code") && told["code"].is_string()) {
      text += " (" + told["code"].get<std::string>() + ")";
    }
    return Printable(text);
  }
  std::string text = "the server answered with status " + std::to_string(status);
  if (!body.empty()) text += ": " + Printable(body.substr(0, 500));
  return text;
}

Api::Api(std::unique_ptr<http::Client> client, Server server,
         std::shared_ptr<const http::TlsContext> trust, const Settings& settings)
    : client_(std::move(client)),
      server_(std::move(server)),
      trust_(std::move(trust)),
      tenant_(settings.tenant),
      reason_(settings.reason) {}

Result<Api> Api::Connect(const Settings& settings) {
  ATOLL_ASSIGN(Server server, FindServer(settings));
  std::shared_ptr<const http::TlsContext> trust;
  ATOLL_ASSIGN(const http::BaseUrl url, http::ParseBaseUrl(server.url));
  if (url.tls) {
    ATOLL_ASSIGN(trust, http::TlsContext::ForClient(settings.cacert));
  }
  ATOLL_ASSIGN(auto client, http::Client::Create(server.url, trust));
  return Api(std::move(client), std::move(server), std::move(trust), settings);
}

std::string Api::TargetOf(std::string_view target) const {
  std::string whole = "/v1" + std::string(target);
  const auto add = [&whole](const char* name, const std::string& value) {
    if (value.empty()) return;
    whole.append(whole.find('?') == std::string::npos ? "?" : "&").append(name).append("=");
    whole.append(PercentEncode(value));
  };
  const bool inside = target.starts_with("/sandboxes/") && target.find("/proxy/") != target.npos;
  if (inside) add("reason", reason_);
  for (const char* named : {"/images/", "/pools/", "/volumes/"}) {
    if (target.starts_with(named)) add("tenant", tenant_);
  }
  return whole;
}

void Api::AddKey(http::Client::Call* call) const {
  if (!server_.api_key.empty()) call->headers.Set("OPEN-SANDBOX-API-KEY", server_.api_key);
}

Result<http::Response> Api::CheckStatus(Result<http::Response> response) const {
  if (!response) {
    Error error = std::move(response).error();
    if (error.error_number() == ECONNREFUSED) {
      error = std::move(error).Wrap("nobody answers at " + server_.url + " (is atolld running?)");
    }
    return Fail(std::move(error));
  }
  if (response->status / 100 == 2) return response;
  std::string text = ErrorText(response->status, response->body);
  if (response->status == 401) {
    text += "; give the key with ATOLL_API_KEY or --api-key-file, or run 'atoll login'";
  }
  const Code code = CodeOf(response->status, text);
  return Fail(code, std::move(text));
}

Result<http::Response> Api::Send(http::Client::Call call) {
  call.target = TargetOf(call.target);
  AddKey(&call);
  for (int patience = kPatience;;) {
    auto response = client_->Send(call);
    const int rest = response ? RestBefore(*response) : 0;
    if (call.method != "GET" || rest == 0 || rest > patience) {
      return CheckStatus(std::move(response));
    }
    patience -= rest;
    ::poll(nullptr, 0, rest * 1000);
  }
}

Result<http::Response> Api::Send(const std::string& method, const std::string& target,
                                 const std::string& json_body) {
  http::Client::Call call;
  call.method = method;
  call.target = target;
  call.body = json_body;
  if (!json_body.empty()) call.headers.Set("Content-Type", "application/json");
  return Send(std::move(call));
}

Result<http::Response> Api::Stream(http::Client::Call call,
                                   const std::function<bool(std::string_view)>& on_data) {
  call.target = TargetOf(call.target);
  AddKey(&call);
  return CheckStatus(client_->Stream(call, on_data));
}

std::string LiteralPath(std::string_view path) {
  std::string out;
  for (const char c : path) out.append(c == '$' ? 2 : 1, c);
  return out;
}

std::string PercentEncode(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    if (plain) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return out;
}

}  // namespace atl::cli
