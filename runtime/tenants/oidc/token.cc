#include "runtime/tenants/oidc/token.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "runtime/base/json_text.h"
#include "runtime/tenants/oidc/base64_url.h"

namespace atl::tenants {
namespace {

constexpr size_t kMaxIdOfKey = 256;
constexpr size_t kMaxAlgorithm = 16;
constexpr size_t kMaxSubject = 255;  // OpenID Connect Core, section 2
// Members of a header that name a key, or a rule that we do not know.
constexpr const char* kRefused[] = {"crit", "jku", "x5u", "jwk", "x5c", "b64", "zip", "enc"};
// Types of tokens that say who somebody is (RFC 8725 section 3.11), in small letters. Tokens of
// other types, such as those of a logout, have the same issuer and keys.
constexpr const char* kTypes[] = {"jwt", "at+jwt", "application/jwt", "application/at+jwt"};
constexpr double kLastSecond = 253402300799;  // the end of the year 9999

tl::unexpected<Error> Malformed(const std::string& what) {
  return Fail(Code::kInvalidArgument, what);
}

Result<nlohmann::json> ReadObject(std::string_view text, const char* name) {
  auto parsed = ParseJson(text, kMaxRuleLevels);
  if (!parsed || !parsed->is_object()) return Malformed(std::string(name) + " is no JSON object");
  // Readers differ in which of two members they take.
  std::set<std::string> seen;
  bool twice = false;
  VisitMembers(text, [&](const std::string& member, const nlohmann::json&) {
    twice = !seen.insert(member).second || twice;
  });
  if (twice) return Malformed(std::string(name) + " has a member twice");
  return parsed;
}

Result<nlohmann::json> ReadPart(std::string_view part, const char* name) {
  const auto text = DecodeBase64Url(part);
  if (!text) return Malformed(std::string(name) + " is not base64url");
  return ReadObject(*text, name);
}

Result<std::string> ReadText(const nlohmann::json& object, const char* name, size_t most) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) {
    return Malformed(std::string(name) + " is missing, or no text");
  }
  std::string text = found->get<std::string>();
  if (text.empty() || text.size() > most) {
    return Malformed(std::string(name) + " is empty or too long");
  }
  return text;
}

Status CheckType(const nlohmann::json& head) {
  if (!head.contains("typ")) return {};
  ATOLL_ASSIGN(std::string type, ReadText(head, "typ", kMaxIdOfKey));
  for (char& c : type) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const bool known = std::any_of(std::begin(kTypes), std::end(kTypes),
                                 [&type](const char* one) { return type == one; });
  if (known) return {};
  return Malformed("typ is not that of an access or identity token");
}

// Reads a time of a claim; nothing if it is absent.
Result<std::optional<int64_t>> ReadTime(const nlohmann::json& claims, const char* name) {
  const auto found = claims.find(name);
  if (found == claims.end()) return std::nullopt;
  const double value = found->is_number() ? found->get<double>() : -1;
  if (!std::isfinite(value) || value < 0 || value > kLastSecond) {
    return Malformed(std::string(name) + " is no time");
  }
  return static_cast<int64_t>(value);
}

// Returns the texts of a claim: one, or those of a list. Nothing for other claims.
std::vector<std::string> TextsOf(const nlohmann::json& claim) {
  if (claim.is_string()) return {claim.get<std::string>()};
  std::vector<std::string> texts;
  if (!claim.is_array() || claim.size() > kMaxTextsOfClaim) return texts;
  for (const nlohmann::json& one : claim) {
    if (one.is_string()) texts.push_back(one.get<std::string>());
  }
  return texts;
}

Status CheckTimes(const nlohmann::json& claims, int64_t now_s) {
  ATOLL_ASSIGN(const std::optional<int64_t> expires, ReadTime(claims, "exp"));
  ATOLL_ASSIGN(const std::optional<int64_t> not_before, ReadTime(claims, "nbf"));
  ATOLL_ASSIGN(const std::optional<int64_t> issued, ReadTime(claims, "iat"));
  if (!expires) return Malformed("exp is missing");
  if (*expires + kTokenLeewaySeconds <= now_s) {
    return Fail(Code::kDeadlineExceeded, "the token has expired");
  }
  for (const std::optional<int64_t>& time : {not_before, issued}) {
    if (time && *time - kTokenLeewaySeconds > now_s) {
      return Fail(Code::kPermissionDenied, "the token was issued in the future: a clock is wrong");
    }
  }
  return {};
}

Result<Claims> ClaimsOf(const nlohmann::json& parsed) {
  Claims claims;
  ATOLL_ASSIGN(claims.issuer, ReadText(parsed, "iss", kMaxToken));
  ATOLL_ASSIGN(claims.subject, ReadText(parsed, "sub", kMaxSubject));
  ATOLL_ASSIGN(const std::optional<int64_t> expires, ReadTime(parsed, "exp"));
  if (!expires) return Malformed("exp is missing");
  claims.expires_s = *expires;
  for (const auto& [name, value] : parsed.items()) {
    std::vector<std::string> texts = TextsOf(value);
    if (!texts.empty()) claims.texts.emplace(name, std::move(texts));
  }
  if (const auto found = claims.texts.find("aud"); found != claims.texts.end()) {
    claims.audiences = found->second;
  }
  if (claims.audiences.empty()) return Malformed("aud is missing");
  return claims;
}

}  // namespace

bool IsToken(std::string_view text) {
  // Base64url of '{"'.
  return text.starts_with("eyJ") && std::count(text.begin(), text.end(), '.') == 2;
}

Result<TokenHead> ReadTokenHead(std::string_view token) {
  if (token.size() > kMaxToken) return Malformed("longer than " + std::to_string(kMaxToken));
  if (!IsToken(token)) return Malformed("no signed token in compact form");
  const size_t first = token.find('.');
  const size_t second = token.find('.', first + 1);
  ATOLL_ASSIGN(const nlohmann::json head, ReadPart(token.substr(0, first), "the header"));
  for (const char* name : kRefused) {
    if (head.contains(name)) return Malformed("the header has " + std::string(name));
  }
  ATOLL_TRY(CheckType(head));
  TokenHead read;
  ATOLL_ASSIGN(read.algorithm, ReadText(head, "alg", kMaxAlgorithm));
  if (head.contains("kid")) {
    ATOLL_ASSIGN(read.key_id, ReadText(head, "kid", kMaxIdOfKey));
  }
  ATOLL_ASSIGN(const nlohmann::json claims,
               ReadPart(token.substr(first + 1, second - first - 1), "the payload"));
  ATOLL_ASSIGN(read.issuer, ReadText(claims, "iss", kMaxToken));
  if (claims.contains("aud")) read.audiences = TextsOf(claims["aud"]);
  if (second + 1 == token.size()) return Malformed("no signature");
  return read;
}

Result<Claims> ReadClaims(std::string_view payload) {
  ATOLL_ASSIGN(const nlohmann::json parsed, ReadObject(payload, "the payload"));
  return ClaimsOf(parsed);
}

Result<std::string> VerifyToken(std::string_view token, const TokenHead& head, const KeySet& keys,
                                int64_t now_s) {
  const KeySet::Key* const key = keys.Find(head.key_id);
  if (key == nullptr) return Fail(Code::kNotFound, "no key of the issuer has the token's key id");
  if (!key->Takes(head.algorithm)) {
    return Fail(Code::kPermissionDenied, "the key is not for the token's algorithm");
  }
  ATOLL_ASSIGN(std::string payload, CheckSignature(token, *key));
  ATOLL_ASSIGN(const nlohmann::json parsed, ReadObject(payload, "the payload"));
  ATOLL_ASSIGN(const Claims claims, ClaimsOf(parsed));
  // The keys are those of the issuer that the head names.
  if (claims.issuer != head.issuer) return Malformed("iss changed");
  ATOLL_TRY(CheckTimes(parsed, now_s));
  return payload;
}

}  // namespace atl::tenants
