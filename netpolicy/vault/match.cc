#include "netpolicy/vault/match.h"

#include <algorithm>
#include <string>
#include <vector>

#include "netpolicy/vault/path.h"
#include "runtime/http/ascii.h"

namespace atl::vault {
namespace {

bool IsWildcard(std::string_view pattern) {
  return pattern.starts_with("*.");
}

// Returns 0 if no host matches, 1 for a wildcard, 2 for an exact host.
int Precedence(const Binding& binding, std::string_view host) {
  int best = 0;
  for (const std::string& pattern : binding.match.hosts) {
    if (FitsHost(pattern, host)) best = std::max(best, IsWildcard(pattern) ? 1 : 2);
  }
  return best;
}

bool FitsPath(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with('*')) return path == pattern;
  pattern.remove_suffix(1);
  return path.starts_with(pattern);
}

bool TakesPath(const Binding& binding, std::string_view path) {
  return std::any_of(binding.match.paths.begin(), binding.match.paths.end(),
                     [&](const std::string& pattern) { return FitsPath(pattern, path); });
}

bool TakesScheme(const Match& match, Scheme scheme) {
  return std::find(match.schemes.begin(), match.schemes.end(), scheme) != match.schemes.end();
}

// Ignores case, like OpenSandbox's reference, because some servers accept "get" for GET.
bool TakesMethod(const Match& match, std::string_view method) {
  return std::any_of(match.methods.begin(), match.methods.end(),
                     [&](const std::string& one) { return http::EqualNoCase(one, method); });
}

template <typename T, typename F>
bool AnyPair(const std::vector<T>& one, const std::vector<T>& other, F fits) {
  return std::any_of(one.begin(), one.end(), [&](const T& a) {
    return std::any_of(other.begin(), other.end(), [&](const T& b) { return fits(a, b); });
  });
}

template <typename T>
bool HaveCommon(const std::vector<T>& one, const std::vector<T>& other) {
  return AnyPair(one, other, [](const T& a, const T& b) { return a == b; });
}

bool PathsOverlap(std::string_view a, std::string_view b) {
  const bool a_open = a.ends_with('*');
  const bool b_open = b.ends_with('*');
  if (a_open) a.remove_suffix(1);
  if (b_open) b.remove_suffix(1);
  return a == b || (a_open && b.starts_with(a)) || (b_open && a.starts_with(b));
}

// Two wildcards overlap if one is within the other: "*.b.example.com" is within "*.example.com".
bool WildcardsOverlap(std::string_view a, std::string_view b) {
  a.remove_prefix(1);  // ".example.com"
  b.remove_prefix(1);
  return a.ends_with(b) || b.ends_with(a);
}

bool HostsOverlap(std::string_view a, std::string_view b) {
  if (IsWildcard(a) != IsWildcard(b)) return false;
  return IsWildcard(a) ? WildcardsOverlap(a, b) : a == b;
}

}  // namespace

bool FitsHost(std::string_view pattern, std::string_view host) {
  if (!IsWildcard(pattern)) return pattern == host;
  pattern.remove_prefix(1);
  return host.size() > pattern.size() && host.ends_with(pattern);
}

bool TakesHost(const Binding& binding, std::string_view host) {
  return Precedence(binding, host) > 0;
}

bool Covers(const Vault& vault, Scheme scheme, std::string_view host) {
  return std::any_of(vault.bindings.begin(), vault.bindings.end(), [&](const Binding& binding) {
    return TakesScheme(binding.match, scheme) && TakesHost(binding, host);
  });
}

bool Overlap(const Match& one, const Match& other) {
  return HaveCommon(one.schemes, other.schemes) && HaveCommon(one.methods, other.methods) &&
         AnyPair(one.paths, other.paths, PathsOverlap) &&
         AnyPair(one.hosts, other.hosts, HostsOverlap);
}

Choice Choose(const Vault& vault, Scheme scheme, std::string_view host, std::string_view method,
              std::string_view path) {
  if (path.empty()) path = "/";
  const std::string decoded = DecodeOnce(path);
  // "%2f" may be part of a name ("/@scope%2fname"). It is refused only where reading it as a slash
  // would lead to another binding.
  bool differs = false;
  int best = 0;
  size_t count = 0;
  const Binding* chosen = nullptr;
  for (const Binding& binding : vault.bindings) {
    if (!TakesScheme(binding.match, scheme) || !TakesMethod(binding.match, method)) continue;
    const int precedence = Precedence(binding, host);
    if (precedence == 0) continue;
    const bool takes = TakesPath(binding, path);
    differs = differs || takes != TakesPath(binding, decoded);
    if (!takes || precedence < best) continue;
    count = precedence > best ? 1 : count + 1;
    best = precedence;
    chosen = &binding;
  }
  if (count == 0) return {};
  if (count > 1) return {Choice::Kind::kAmbiguous, nullptr};
  const bool has_slash = HasEncodedSlash(path);
  if (IsAmbiguousPath(path, EncodedSlash::kOnce) || (has_slash && differs)) {
    return {Choice::Kind::kAmbiguousPath, nullptr};
  }
  return {Choice::Kind::kOne, chosen};
}

}  // namespace atl::vault
