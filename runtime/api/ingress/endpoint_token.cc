#include "runtime/api/ingress/endpoint_token.h"

#include "runtime/base/base64.h"
#include "runtime/base/same_secret.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"

namespace atl::api {
namespace {

constexpr std::string_view kTokenPrefix = "e1.";
constexpr size_t kMacSize = 43;  // 32 bytes in base64 without padding
constexpr size_t kBehindKey = 1 + kSandboxIdSize + 1 + kMacSize;

}  // namespace

EndpointTokens::EndpointTokens(std::string_view daemon_secret)
    : mac_key_(HmacSha256(daemon_secret, "atoll endpoint tokens")) {}

bool EndpointTokens::IsToken(std::string_view text) {
  return text.starts_with(kTokenPrefix);
}

std::string EndpointTokens::Make(std::string_view key_id, std::string_view sandbox_id) const {
  std::string token(kTokenPrefix);
  token.append(key_id).append(".").append(sandbox_id).append(".");
  return token.append(MacOf(key_id, sandbox_id));
}

std::optional<std::string> EndpointTokens::KeyIdOf(std::string_view token,
                                                   std::string_view sandbox_id) const {
  // The parts behind the key's id have a fixed size, so there is one way to read a token.
  if (!token.starts_with(kTokenPrefix) || token.size() <= kTokenPrefix.size() + kBehindKey) {
    return std::nullopt;
  }
  token.remove_prefix(kTokenPrefix.size());
  const std::string_view key_id = token.substr(0, token.size() - kBehindKey);
  token.remove_prefix(key_id.size());
  if (token.front() != '.' || token.substr(1, kSandboxIdSize) != sandbox_id ||
      token[1 + kSandboxIdSize] != '.') {
    return std::nullopt;
  }
  if (!SameSecret(token.substr(token.size() - kMacSize), MacOf(key_id, sandbox_id))) {
    return std::nullopt;
  }
  return std::string(key_id);
}

std::string EndpointTokens::MacOf(std::string_view key_id, std::string_view sandbox_id) const {
  // The sandbox's id has a fixed size, so no two pairs give one text.
  std::string text(key_id);
  text.append("\n").append(sandbox_id);
  return EncodeBase64Url(HmacSha256(mac_key_, text));
}

}  // namespace atl::api
