#include "images/registry/challenge.h"

#include <utility>

#include "images/report.h"
#include "runtime/http/ascii.h"
#include "runtime/http/base_url.h"
#include "runtime/http/head.h"

namespace atl::images::registry {
namespace {

constexpr size_t kMaxChallenge = 8 << 10;

tl::unexpected<Error> Unknown(std::string_view text) {
  return Fail(Code::kInvalidArgument,
              "the registry uses an unknown authentication scheme: '" + Printable(text, 200) + "'");
}

// Takes the word, quoted or not, from the front of `rest`.
bool TakeWord(std::string_view& rest, std::string* out) {
  out->clear();
  if (!rest.starts_with('"')) {
    while (!rest.empty() && http::IsTokenChar(rest.front())) {
      out->push_back(rest.front());
      rest.remove_prefix(1);
    }
    return !out->empty();
  }
  rest.remove_prefix(1);
  while (!rest.empty() && rest.front() != '"') {
    if (rest.front() == '\\') rest.remove_prefix(1);
    if (rest.empty()) return false;
    out->push_back(rest.front());
    rest.remove_prefix(1);
  }
  if (rest.empty()) return false;
  rest.remove_prefix(1);
  return true;
}

void AppendEscaped(std::string_view text, std::string* out) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (const char c : text) {
    const bool plain = http::IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    if (plain) {
      out->push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    *out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
}

}  // namespace

Result<Challenge> ParseChallenge(std::string_view text) {
  if (text.size() > kMaxChallenge) return Unknown(text);
  std::string_view rest = http::TrimBlanks(text);
  std::string scheme;
  if (!TakeWord(rest, &scheme)) return Unknown(text);
  Challenge challenge;
  challenge.bearer = http::EqualNoCase(scheme, "bearer");
  if (!challenge.bearer) {
    if (http::EqualNoCase(scheme, "basic")) return challenge;
    return Unknown(text);
  }
  while (true) {
    rest = http::TrimBlanks(rest);
    std::string name, value;
    if (!TakeWord(rest, &name) || !rest.starts_with('=')) return Unknown(text);
    rest.remove_prefix(1);
    if (!TakeWord(rest, &value)) return Unknown(text);
    if (http::EqualNoCase(name, "realm")) challenge.realm = value;
    if (http::EqualNoCase(name, "service")) challenge.service = value;
    rest = http::TrimBlanks(rest);
    if (rest.empty()) break;
    if (!rest.starts_with(',')) return Unknown(text);
    rest.remove_prefix(1);
  }
  if (challenge.realm.empty()) return Unknown(text);
  return challenge;
}

Result<std::string> TokenUrl(const Challenge& challenge, const std::string& repository) {
  std::string url = challenge.realm;
  url += url.find('?') == std::string::npos ? '?' : '&';
  if (!challenge.service.empty()) {
    url += "service=";
    AppendEscaped(challenge.service, &url);
    url += '&';
  }
  url += "scope=";
  AppendEscaped("repository:" + repository + ":pull", &url);
  ATOLL_TRY(ParseSecureUrl(url));
  return url;
}

Result<SecureUrl> ParseSecureUrl(std::string_view url) {
  constexpr std::string_view kScheme = "https://";
  const auto refuse = [&] {
    return Fail(Code::kInvalidArgument, "the registry redirects to '" + Printable(url, 200) +
                                            "', which is not an https:// URL");
  };
  if (!url.starts_with(kScheme)) return refuse();
  const size_t end = url.find_first_of("/?#", kScheme.size());
  SecureUrl parsed{std::string(url.substr(0, end)), "/"};
  if (end != std::string_view::npos) {
    const std::string_view rest = url.substr(end, url.find('#') - end);
    if (rest.starts_with('/')) parsed.target = rest;
    if (rest.starts_with('?')) parsed.target += rest;
  }
  if (!http::ParseBaseUrl(parsed.origin) || !http::ValidTarget(parsed.target)) return refuse();
  return parsed;
}

}  // namespace atl::images::registry
