#include "tools/atoll/client/sign_in.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "runtime/base/base64.h"
#include "runtime/base/clock.h"
#include "runtime/base/json_text.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/base_url.h"
#include "runtime/http/client.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;
using Form = std::vector<std::pair<const char*, std::string>>;

constexpr char kDeviceGrant[] = "urn:ietf:params:oauth:grant-type:device_code";
constexpr int64_t kCallUs = 30'000'000;
constexpr int64_t kMostLife = 3600;
constexpr int64_t kMostInterval = 60;
constexpr int64_t kSlowDown = 5;  // RFC 8628 section 3.5

int64_t NowSeconds() {
  return UnixMillis() / 1000;
}

// Secrets go to these addresses, and are not shown to the network.
Status CheckProviderAddress(const std::string& address) {
  const size_t path = std::min(address.find('/', sizeof "https://"), address.size());
  const auto url = http::ParseBaseUrl(address.substr(0, path));
  const bool loopback =
      url && (url->host == "localhost" || url->host == "127.0.0.1" || url->host == "::1");
  if (url && url->socket_path.empty() && (url->tls || loopback)) return {};
  return Fail(Code::kFailedPrecondition,
              "'" + Printable(address) + "' is not the https:// address of an identity provider");
}

Result<http::Response> CallProvider(const std::string& address, http::Client::Call call) {
  ATOLL_TRY(CheckProviderAddress(address));
  const size_t path = std::min(address.find('/', sizeof "https://"), address.size());
  ATOLL_ASSIGN(const auto client, http::Client::Create(address.substr(0, path)));
  if (path != address.size()) call.target = address.substr(path);
  call.headers.Set("Accept", "application/json");
  call.limit_us = kCallUs;
  auto response = client->Send(call);
  if (response) return response;
  return Fail(Code::kUnavailable, "the identity provider at " + Printable(address) +
                                      " cannot be reached: " + response.error().message());
}

struct ProviderAnswer {
  int status = 0;
  json body;  // an object
};

Result<ProviderAnswer> PostForm(const std::string& address, const Form& fields) {
  http::Client::Call call;
  call.method = "POST";
  call.headers.Set("Content-Type", "application/x-www-form-urlencoded");
  for (const auto& [name, value] : fields) {
    if (value.empty()) continue;
    call.body.append(call.body.empty() ? "" : "&").append(name).append("=");
    call.body.append(PercentEncode(value));
  }
  ATOLL_ASSIGN(const http::Response response, CallProvider(address, std::move(call)));
  ProviderAnswer answer{response.status, JsonOrNull(response.body)};
  if (!answer.body.is_object()) answer.body = json::object();
  return answer;
}

// Returns the provider's words for an error.
std::string WordsOf(const ProviderAnswer& answer) {
  const std::string error = TextOf(answer.body, "error");
  const std::string more = TextOf(answer.body, "error_description");
  if (error.empty()) return "it answered with status " + std::to_string(answer.status);
  return Printable(more.empty() ? error : more + " (" + error + ")");
}

bool IsSigned(const std::string& token) {
  return token.starts_with("eyJ") && std::count(token.begin(), token.end(), '.') == 2;
}

// Returns when the token says that it expires. 0: it does not say.
int64_t ExpiryOf(const std::string& token) {
  const size_t first = token.find('.') + 1;
  std::string payload = token.substr(first, token.rfind('.') - first);
  std::replace(payload.begin(), payload.end(), '-', '+');
  std::replace(payload.begin(), payload.end(), '_', '/');
  const json claims = JsonOrNull(DecodeBase64(payload).value_or(""));
  const auto found = claims.is_object() ? claims.find("exp") : claims.end();
  if (!claims.is_object() || found == claims.end() || !found->is_number()) return 0;
  return static_cast<int64_t>(std::clamp(found->get<double>(), 0.0, 1e11));
}

int64_t SecondsOf(const json& object, const char* name, int64_t otherwise, int64_t most) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return otherwise;
  return static_cast<int64_t>(std::clamp(found->get<double>(), 1.0, static_cast<double>(most)));
}

Status TakeTokens(const json& body, SignIn* sign_in) {
  // Servers read what a token says, so it must be a signed one.
  std::string token = TextOf(body, "access_token");
  if (!IsSigned(token)) token = TextOf(body, "id_token");
  if (!IsSigned(token)) {
    return Fail(Code::kFailedPrecondition,
                "the identity provider gives no signed tokens (JWT) to the client '" +
                    Printable(sign_in->client_id) + "'; ask its operator for them");
  }
  sign_in->expires_s = ExpiryOf(token);
  if (sign_in->expires_s == 0) {
    sign_in->expires_s = NowSeconds() + SecondsOf(body, "expires_in", kMostLife, kMostLife);
  }
  sign_in->token = std::move(token);
  std::string refresh = TextOf(body, "refresh_token");
  if (!refresh.empty()) sign_in->refresh_token = std::move(refresh);
  return {};
}

Result<std::string> ProviderEndpoint(const json& metadata, const char* name,
                                     const std::string& issuer) {
  std::string address = TextOf(metadata, name);
  if (address.empty()) {
    return Fail(Code::kFailedPrecondition, "the identity provider " + Printable(issuer) +
                                               " has no " + name +
                                               ", so it does not support the device flow");
  }
  ATOLL_TRY(CheckProviderAddress(address));
  return address;
}

Status WaitSeconds(int64_t seconds) {
  ATOLL_ASSIGN(const UniqueFd timer, http::TimeLimit(seconds * 1'000'000));
  pollfd wait{.fd = timer.get(), .events = POLLIN, .revents = 0};
  while (::poll(&wait, 1, -1) < 0 && errno == EINTR) {
  }
  return {};
}

}  // namespace

Result<DeviceCode> AskForCode(SignIn* sign_in) {
  const std::string& issuer = sign_in->issuer;
  const std::string base = issuer.ends_with('/') ? issuer.substr(0, issuer.size() - 1) : issuer;
  ATOLL_ASSIGN(const http::Response response,
               CallProvider(base + "/.well-known/openid-configuration", http::Client::Call()));
  const json metadata = JsonOrNull(response.body);
  if (response.status != 200 || !metadata.is_object()) {
    return Fail(Code::kFailedPrecondition, "there is no identity provider at " + Printable(issuer) +
                                               " (it has no .well-known/openid-configuration)");
  }
  if (TextOf(metadata, "issuer") != issuer) {
    return Fail(Code::kFailedPrecondition, "the identity provider at " + Printable(issuer) +
                                               " calls itself " +
                                               Printable(TextOf(metadata, "issuer")) +
                                               ": use that as --issuer if you trust it");
  }
  ATOLL_ASSIGN(const std::string device_endpoint,
               ProviderEndpoint(metadata, "device_authorization_endpoint", issuer));
  ATOLL_ASSIGN(sign_in->token_endpoint, ProviderEndpoint(metadata, "token_endpoint", issuer));
  sign_in->revocation_endpoint = TextOf(metadata, "revocation_endpoint");
  ATOLL_ASSIGN(const ProviderAnswer answer,
               PostForm(device_endpoint, {{"client_id", sign_in->client_id},
                                          {"scope", sign_in->scope},
                                          {"audience", sign_in->audience}}));
  DeviceCode code{.device_code = TextOf(answer.body, "device_code"),
                  .user_code = TextOf(answer.body, "user_code"),
                  .address = TextOf(answer.body, "verification_uri"),
                  .full_address = TextOf(answer.body, "verification_uri_complete"),
                  .lives_s = SecondsOf(answer.body, "expires_in", 300, kMostLife),
                  .interval_s = SecondsOf(answer.body, "interval", kSlowDown, kMostInterval)};
  if (answer.status != 200 || code.device_code.empty() || code.user_code.empty() ||
      code.address.empty()) {
    return Fail(Code::kFailedPrecondition, "the identity provider refused the client '" +
                                               Printable(sign_in->client_id) +
                                               "' a code: " + WordsOf(answer));
  }
  return code;
}

Status AwaitConsent(const DeviceCode& code, SignIn* sign_in) {
  const int64_t until_s = NowSeconds() + code.lives_s;
  int64_t interval_s = code.interval_s;
  while (NowSeconds() < until_s) {
    ATOLL_TRY(WaitSeconds(interval_s));
    const auto answer = PostForm(sign_in->token_endpoint, {{"grant_type", kDeviceGrant},
                                                           {"device_code", code.device_code},
                                                           {"client_id", sign_in->client_id}});
    if (!answer) {
      // The code is good for minutes; a provider may be away for less.
      if (answer.error().code() != Code::kUnavailable) return Fail(answer.error());
      interval_s = std::min(2 * interval_s, kMostInterval);
      continue;
    }
    if (answer->status == 200) return TakeTokens(answer->body, sign_in);
    const std::string error = TextOf(answer->body, "error");
    if (error == "slow_down") interval_s = std::min(interval_s + kSlowDown, kMostInterval);
    if (error == "slow_down" || error == "authorization_pending" || answer->status >= 500) continue;
    if (error == "expired_token") break;
    if (error == "access_denied") {
      return Fail(Code::kPermissionDenied, "the sign-in was refused in the browser");
    }
    return Fail(Code::kFailedPrecondition,
                "the identity provider refused the sign-in: " + WordsOf(*answer));
  }
  return Fail(Code::kDeadlineExceeded, "nobody entered the code in time; run 'atoll login' again");
}

Status Renew(SignIn* sign_in) {
  ATOLL_ASSIGN(const ProviderAnswer answer,
               PostForm(sign_in->token_endpoint, {{"grant_type", "refresh_token"},
                                                  {"refresh_token", sign_in->refresh_token},
                                                  {"client_id", sign_in->client_id}}));
  if (answer.status == 200) return TakeTokens(answer.body, sign_in);
  if (answer.status >= 500 || answer.status == 429) {
    return Fail(Code::kUnavailable,
                "the identity provider cannot renew your sign-in now: " + WordsOf(answer));
  }
  return Fail(Code::kPermissionDenied,
              "your sign-in has ended: " + WordsOf(answer) + "; run 'atoll login'");
}

Status Withdraw(const SignIn& sign_in) {
  if (sign_in.revocation_endpoint.empty() || sign_in.refresh_token.empty()) return {};
  ATOLL_ASSIGN(const ProviderAnswer answer,
               PostForm(sign_in.revocation_endpoint, {{"token", sign_in.refresh_token},
                                                      {"token_type_hint", "refresh_token"},
                                                      {"client_id", sign_in.client_id}}));
  if (answer.status == 200) return {};
  return Fail(Code::kUnavailable, WordsOf(answer));
}

}  // namespace atl::cli
