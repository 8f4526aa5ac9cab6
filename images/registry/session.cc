#include "images/registry/session.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "images/foreign_json.h"
#include "images/registry/challenge.h"
#include "runtime/base/base64.h"

namespace atl::images::registry {
namespace {

constexpr int kMaxRedirects = 5;
constexpr size_t kMaxToken = 64 << 10;
// Most attempts in a row without a single byte. The pause before each of them doubles, half a
// minute in all.
constexpr int kMaxVain = 5;
constexpr int kPauseMs = 1000;

std::string OriginOf(const Reference& reference) {
  // The host of Docker's registry differs from its name.
  const bool docker = reference.registry == "docker.io";
  return "https://" + (docker ? "registry-1.docker.io" : reference.registry);
}

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Returns the token from either of the two members that servers use for it.
std::string TokenOf(const std::string& json) {
  const auto answer = ParseForeignObject(json, "token");
  if (!answer) return {};
  for (const char* name : {"token", "access_token"}) {
    const auto token = answer->find(name);
    if (token != answer->end() && token->is_string()) return token->get<std::string>();
  }
  return {};
}

}  // namespace

Result<Session> Session::Open(Reference reference, Credentials credentials,
                              std::shared_ptr<const http::TlsContext> trust,
                              std::shared_ptr<Patience> patience) {
  std::string origin = OriginOf(reference);
  ATOLL_ASSIGN(auto client, http::Client::Create(origin, trust));
  return Session(std::move(reference), std::move(origin), std::move(credentials), std::move(trust),
                 std::move(patience), std::move(client));
}

Session::Session(Reference reference, std::string origin, Credentials credentials,
                 std::shared_ptr<const http::TlsContext> trust, std::shared_ptr<Patience> patience,
                 std::unique_ptr<http::Client> client)
    : reference_(std::move(reference)),
      origin_(std::move(origin)),
      credentials_(std::move(credentials)),
      trust_(std::move(trust)),
      patience_(std::move(patience)),
      client_(std::move(client)) {}

Result<http::Headers> Session::Get(const std::string& path, const std::string& accept,
                                   const Sink& sink) {
  return Get(path, {accept, 0, sink});
}

Status Session::GetSteadily(const std::string& path, const Sink& sink) {
  uint64_t got = 0;
  const Sink count = [&](std::string_view bytes) {
    got += bytes.size();
    return sink(bytes);
  };
  for (int vain = 0;; ++vain) {
    const uint64_t before = got;
    const auto answer = Get(path, {"", before, count});
    if (answer) return {};
    if (got > before) vain = 0;
    const bool goes_on = answer.error().code() == Code::kUnavailable && got > 0 && vain < kMaxVain;
    if (!goes_on || !patience_->Pause(kPauseMs << vain)) return Fail(answer.error());
  }
}

Result<http::Headers> Session::Get(const std::string& path, const Wanted& wanted) {
  const std::string target = "/v2/" + reference_.repository + "/" + path;
  ATOLL_ASSIGN(http::Response response, Ask(*client_, target, wanted, authorization_));
  if (response.status == 401) {
    // The first request, or the token has expired.
    ATOLL_TRY(Authenticate(response.headers.Get("WWW-Authenticate")));
    ATOLL_ASSIGN(response, Ask(*client_, target, wanted, authorization_));
  }
  ATOLL_ASSIGN(response, Follow(std::move(response), wanted));
  const bool rest = response.status == 206 && wanted.from > 0;
  if (response.status != 200 && !rest) return Fail(Refused(response));
  return std::move(response.headers);
}

Result<http::Response> Session::Ask(http::Client& client, const std::string& target,
                                    const Wanted& wanted, const std::string& authorization) {
  http::Client::Call call;
  call.target = target;
  if (!wanted.accept.empty()) call.headers.Set("Accept", wanted.accept);
  if (wanted.from > 0) call.headers.Set("Range", "bytes=" + std::to_string(wanted.from) + "-");
  // A server may ignore the range and send everything. If it sends another range than requested,
  // the result has another digest.
  uint64_t known = 0;
  call.on_head = [&](int status) { known = status == 206 ? 0 : wanted.from; };
  if (!authorization.empty()) call.headers.Set("Authorization", authorization);
  call.headers.Set("User-Agent", "atoll");
  call.cancel_fd = patience_->fd();
  patience_->Renew();
  auto response = client.Stream(call, [&](std::string_view bytes) {
    const size_t skip = std::min<uint64_t>(known, bytes.size());
    known -= skip;
    bytes.remove_prefix(skip);
    return patience_->Renew() && (bytes.empty() || wanted.sink(bytes));
  });
  if (!response && response.error().error_number() == ECANCELED) {
    return Fail(Code::kUnavailable, patience_->reason());
  }
  return response;
}

std::string Session::basic() const {
  if (credentials_.empty()) return {};
  return "Basic " + EncodeBase64(credentials_.username + ":" + credentials_.password);
}

Status Session::Authenticate(std::string_view text) {
  ATOLL_ASSIGN(const Challenge challenge, ParseChallenge(text));
  if (!challenge.bearer) {
    authorization_ = basic();
    return {};
  }
  ATOLL_ASSIGN(const std::string url, TokenUrl(challenge, reference_.repository));
  ATOLL_ASSIGN(authorization_, FetchToken(url));
  return {};
}

Result<std::string> Session::FetchToken(const std::string& url) {
  ATOLL_ASSIGN(const SecureUrl there, ParseSecureUrl(url));
  ATOLL_ASSIGN(const auto client, http::Client::Create(there.origin, trust_));
  std::string text;
  const Sink sink = [&](std::string_view bytes) {
    text += bytes;
    return text.size() <= kMaxToken;
  };
  ATOLL_ASSIGN(const http::Response response, Ask(*client, there.target, {"", 0, sink}, basic()));
  if (response.status != 200) return Fail(Refused(response));
  const std::string token = text.size() <= kMaxToken ? TokenOf(text) : std::string();
  if (token.empty()) {
    return Fail(Code::kUnavailable, there.origin + " did not return a token");
  }
  return "Bearer " + token;
}

// Registries keep layers on other servers and redirect to them. Credentials are for the registry
// only.
Result<http::Response> Session::Follow(http::Response response, const Wanted& wanted) {
  SecureUrl place{origin_, ""};
  for (int hop = 0; IsRedirect(response.status); ++hop) {
    if (hop == kMaxRedirects) {
      return Fail(Code::kUnavailable, origin_ + " redirects too many times");
    }
    const std::string location(response.headers.Get("Location"));
    if (location.starts_with('/') && !location.starts_with("//")) {
      place.target = location;
    } else {
      ATOLL_ASSIGN(place, ParseSecureUrl(location));
    }
    ATOLL_ASSIGN(const auto client, http::Client::Create(place.origin, trust_));
    const std::string authorization = place.origin == origin_ ? authorization_ : std::string();
    ATOLL_ASSIGN(response, Ask(*client, place.target, wanted, authorization));
  }
  return response;
}

Error Session::Refused(const http::Response& response) const {
  const std::string status = " (status " + std::to_string(response.status) + ")";
  switch (response.status) {
    case 401:
    case 403:
      return Error(Code::kPermissionDenied,
                   reference_.registry + " denies access to " + reference_.repository + status +
                       (credentials_.empty()
                            ? ": give image.auth, or ask the operator to set images.pull_auth"
                            : ": the user or the password is wrong"));
    case 404:
      return Error(Code::kNotFound, reference_.registry + " has no " + reference_.repository + ":" +
                                        reference_.tag + status);
    default:
      return Error(Code::kUnavailable, reference_.registry + " does not answer like a registry" +
                                           status + "; try again later");
  }
}

}  // namespace atl::images::registry
