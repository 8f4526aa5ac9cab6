#include "netpolicy/vault/rewrite.h"

#include <algorithm>
#include <utility>

#include "netpolicy/vault/encoding.h"
#include "netpolicy/vault/fields.h"
#include "netpolicy/vault/literals.h"
#include "netpolicy/vault/path.h"
#include "runtime/base/utf8.h"
#include "runtime/http/ascii.h"
#include "runtime/http/head.h"

namespace atl::vault {
namespace {

using Encoder = std::string (*)(std::string_view);

std::string Raw(std::string_view value) {
  return std::string(value);
}

std::string ForJson(std::string_view value) {
  return JsonEscaped(value, JsonStyle::kAscii);
}

Result<std::string_view> ValueOf(const Vault& vault, std::string_view name) {
  const Credential* credential = FindCredential(vault, name);
  if (credential == nullptr) {
    return Fail(Code::kInternal, "credential \"" + std::string(name) + "\" is not in the vault");
  }
  return std::string_view(credential->value);
}

Result<std::vector<Replacement>> ReplacementsFor(const Vault& vault, const Binding& binding,
                                                 Surface surface, Encoder encode) {
  std::vector<Replacement> replacements;
  for (const Substitution& one : binding.auth.substitutions) {
    if (!one.Has(surface)) continue;
    ATOLL_ASSIGN(const std::string_view value, ValueOf(vault, one.credential));
    replacements.push_back({one.placeholder, encode(value)});
  }
  return replacements;
}

// Replaces in `text`. Returns true if there was anything to replace.
Result<bool> ReplaceIn(std::string& text, const std::vector<Replacement>& replacements) {
  ATOLL_ASSIGN(auto replaced, ReplaceOnce(text, replacements, kMaxRewrittenHead));
  if (!replaced) return false;
  text = *std::move(replaced);
  return true;
}

Status RewriteTarget(const Vault& vault, const Binding& binding, http::Request& request,
                     Applied& applied) {
  std::string path(request.path());
  const bool has_query = path.size() < request.target.size();
  std::string query(request.query());
  ATOLL_ASSIGN(const auto in_path, ReplacementsFor(vault, binding, Surface::kPath, UrlEncoded));
  ATOLL_ASSIGN(const auto in_query, ReplacementsFor(vault, binding, Surface::kQuery, UrlEncoded));
  ATOLL_ASSIGN(applied.path, ReplaceIn(path, in_path));
  ATOLL_ASSIGN(applied.query, ReplaceIn(query, in_query));
  // No "%2f" is accepted here: a value must not lead out of the path that was matched.
  if (applied.path && IsAmbiguousPath(path, EncodedSlash::kNever)) {
    return Fail(Code::kPermissionDenied, "binding \"" + binding.name +
                                             "\": with its placeholders replaced, the path could "
                                             "be read as another one");
  }
  request.target = has_query ? path + "?" + query : path;
  return {};
}

Status RewriteHeaders(const Vault& vault, const Binding& binding, http::Headers& headers,
                      Applied& applied) {
  ATOLL_ASSIGN(const auto replacements, ReplacementsFor(vault, binding, Surface::kHeader, Raw));
  if (replacements.empty()) return {};
  for (http::Header& header : headers.list) {
    if (!TakesSubstitutions(header.name) || http::IsHopByHop(headers, header.name)) continue;
    ATOLL_ASSIGN(const bool replaced, ReplaceIn(header.value, replacements));
    applied.header = applied.header || replaced;
  }
  return {};
}

Status SetHeaders(const Vault& vault, const Binding& binding, http::Headers& headers,
                  Applied& applied) {
  for (const HeaderEntry& entry : binding.auth.headers) {
    ATOLL_ASSIGN(const std::string_view value, ValueOf(vault, entry.credential));
    std::string text = HeaderValue(binding.auth.kind, value);
    // Check has validated the value. An invalid one would become a request of its own here.
    if (!http::ValidField(entry.name, text)) {
      return Fail(Code::kInternal, "header \"" + entry.name + "\" cannot be sent");
    }
    headers.Set(entry.name, std::move(text));
    applied.headers.push_back(entry.name);
  }
  return {};
}

size_t HeadBytes(const http::Request& request) {
  size_t bytes = request.method.size() + request.target.size();
  for (const http::Header& header : request.headers.list) {
    bytes += header.name.size() + header.value.size();
  }
  return bytes;
}

// Returns the type without its parameters: "application/json; charset=utf-8" becomes
// "application/json".
std::string MediaType(const http::Headers& headers) {
  const std::string_view value = headers.Get("content-type");
  return LowerCase(http::TrimBlanks(value.substr(0, value.find(';'))));
}

Encoder BodyEncoder(const http::Headers& headers) {
  const std::string type = MediaType(headers);
  if (type == "application/json" || type.ends_with("+json")) return ForJson;
  if (type == "application/x-www-form-urlencoded") return FormEncoded;
  return Raw;
}

bool IsCompressed(const http::Headers& headers) {
  bool compressed = false;
  for (const http::Header& header : headers.list) {
    if (!http::EqualNoCase(header.name, "content-encoding")) continue;
    http::ForEachElement(header.value, [&](std::string_view coding) {
      compressed = compressed || !http::EqualNoCase(coding, "identity");
    });
  }
  return compressed;
}

}  // namespace

Result<Applied> Rewrite(const Vault& vault, const Binding& binding, http::Request& request) {
  Applied applied;
  ATOLL_TRY(RewriteTarget(vault, binding, request, applied));
  ATOLL_TRY(RewriteHeaders(vault, binding, request.headers, applied));
  ATOLL_TRY(SetHeaders(vault, binding, request.headers, applied));
  if (HeadBytes(request) > kMaxRewrittenHead) {
    return Fail(Code::kResourceExhausted, "binding \"" + binding.name +
                                              "\": with its credentials, the head of the request "
                                              "has more than " +
                                              std::to_string(kMaxRewrittenHead) + " bytes");
  }
  return applied;
}

bool SubstitutesBody(const Binding& binding, const http::Headers& headers) {
  const auto& all = binding.auth.substitutions;
  const bool wanted = std::any_of(all.begin(), all.end(),
                                  [](const Substitution& one) { return one.Has(Surface::kBody); });
  return wanted && !IsCompressed(headers) && !MediaType(headers).starts_with("multipart/");
}

Result<std::optional<std::string>> RewriteBody(const Vault& vault, const Binding& binding,
                                               const http::Headers& headers,
                                               std::string_view body) {
  if (!IsUtf8(body)) return std::nullopt;
  ATOLL_ASSIGN(const auto replacements,
               ReplacementsFor(vault, binding, Surface::kBody, BodyEncoder(headers)));
  return ReplaceOnce(body, replacements, kMaxRewrittenBody);
}

}  // namespace atl::vault
