#include "images/allowed.h"

#include <fnmatch.h>

#include <algorithm>

#include "images/digest.h"
#include "images/image_name.h"

namespace atl::images {
namespace {

struct Rule {
  std::string name;    // empty: any
  std::string digest;  // empty: any
};

Rule Split(const std::string& rule) {
  const size_t at = rule.find('@');
  if (at == std::string::npos) return {rule, ""};
  return {rule.substr(0, at), rule.substr(at + 1)};
}

bool Fits(const std::string& text, const std::string& name, std::string_view digest) {
  const Rule rule = Split(text);
  if (!rule.digest.empty() && !digest.empty() && rule.digest != digest) return false;
  if (rule.name.empty()) return true;
  // A slash matches like any other character, so "registry.example/*" is everything of that
  // registry.
  return ::fnmatch(rule.name.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

// Returns true if the name has a tag: a colon after the last slash.
bool HasTag(const std::string& name) {
  const size_t colon = name.rfind(':');
  const size_t slash = name.rfind('/');
  return colon != std::string::npos && (slash == std::string::npos || colon > slash);
}

}  // namespace

Result<std::string> CheckAllowedRule(const std::string& rule) {
  auto [name, digest] = Split(rule);
  const bool pinned = rule.find('@') != std::string::npos;
  // The rule must be a valid name once its stars are replaced by letters.
  std::string plain = name;
  std::replace(plain.begin(), plain.end(), '*', 'x');
  const bool sound = (pinned ? IsSha256Digest(digest) : !name.empty()) &&
                     (name.empty() || NormaliseImageName(plain)) &&
                     name.find_first_of("?[]\\") == std::string::npos;
  if (!sound) {
    return Fail(
        Code::kInvalidArgument,
        "'" + rule +
            "': use NAME:TAG, with * for any characters, and @sha256:… to allow a single digest");
  }
  // Names are stored in this form.
  if (!name.empty() && !HasTag(name) && !name.ends_with('*')) name += ":*";
  for (const std::string_view prefix : {"index.docker.io/", "docker.io/", "library/"}) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  return pinned ? name + "@" + digest : name;
}

Status CheckAllowed(const std::vector<std::string>& rules, const std::string& name,
                    std::string_view digest) {
  const auto fits = [&](const std::string& rule) { return Fits(rule, name, digest); };
  if (rules.empty() || std::any_of(rules.begin(), rules.end(), fits)) return {};
  std::string all;
  for (const std::string& rule : rules) all += (all.empty() ? "" : ", ") + rule;
  return Fail(Code::kPermissionDenied,
              "image '" + name + "'" + (digest.empty() ? "" : " (" + std::string(digest) + ")") +
                  " is not one that this server allows (images.allowed: " + all + ")");
}

}  // namespace atl::images
