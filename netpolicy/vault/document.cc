#include "netpolicy/vault/document.h"

#include <algorithm>
#include <array>
#include <utility>

#include "netpolicy/vault/match.h"
#include "runtime/http/head.h"

namespace atl::vault {
namespace {

tl::unexpected<Error> Unusable(std::string message) {
  return Fail(Code::kInvalidArgument, std::move(message));
}

std::string Quoted(std::string_view name) {
  return "\"" + std::string(name) + "\"";
}

template <typename T>
const T* FindByName(const std::vector<T>& list, std::string_view name) {
  const auto found =
      std::lower_bound(list.begin(), list.end(), name,
                       [](const T& one, std::string_view n) { return one.name < n; });
  return found != list.end() && found->name == name ? &*found : nullptr;
}

Status CheckCount(size_t count, size_t most, const char* what) {
  if (count <= most) return {};
  return Unusable(std::to_string(count) + " " + what + " are more than the " +
                  std::to_string(most) + " of a vault");
}

size_t BytesOf(const Vault& vault) {
  size_t bytes = 0;
  for (const Credential& one : vault.credentials) bytes += one.name.size() + one.value.size();
  for (const Binding& binding : vault.bindings) {
    bytes += binding.name.size();
    for (const std::string& host : binding.match.hosts) bytes += host.size();
    for (const std::string& method : binding.match.methods) bytes += method.size();
    for (const std::string& path : binding.match.paths) bytes += path.size();
    for (const HeaderEntry& entry : binding.auth.headers) {
      bytes += entry.name.size() + entry.credential.size();
    }
    for (const Substitution& one : binding.auth.substitutions) {
      bytes += one.credential.size() + one.placeholder.size();
    }
  }
  return bytes;
}

Status CheckSize(const Vault& vault) {
  size_t hosts = 0;
  size_t paths = 0;
  size_t substitutions = 0;
  for (const Binding& binding : vault.bindings) {
    hosts += binding.match.hosts.size();
    paths += binding.match.paths.size();
    substitutions += binding.auth.substitutions.size();
  }
  ATOLL_TRY(CheckCount(vault.credentials.size(), kMaxCredentials, "credentials"));
  ATOLL_TRY(CheckCount(vault.bindings.size(), kMaxBindings, "bindings"));
  ATOLL_TRY(CheckCount(hosts, kMaxHosts, "hosts of bindings"));
  ATOLL_TRY(CheckCount(paths, kMaxPaths, "paths of bindings"));
  ATOLL_TRY(CheckCount(substitutions, kMaxSubstitutions, "substitutions of bindings"));
  return CheckCount(BytesOf(vault), kMaxVaultBytes, "bytes");
}

template <typename T>
Status CheckOrder(const std::vector<T>& list, const char* what) {
  for (size_t i = 1; i < list.size(); ++i) {
    if (list[i - 1].name == list[i].name) {
      return Unusable(std::string(what) + " " + Quoted(list[i].name) + " is there twice");
    }
    if (list[i - 1].name > list[i].name) return Unusable(std::string(what) + "s are not by name");
  }
  return {};
}

// Whether a value may go where a binding sends it can only be checked on the whole vault, because
// the value may be set after the binding.
Status CheckUse(const Vault& vault, const Binding& binding, std::string_view name, bool in_header,
                bool in_head) {
  const Credential* credential = FindCredential(vault, name);
  const std::string where = "binding " + Quoted(binding.name) + ": credential " + Quoted(name);
  if (credential == nullptr) return Unusable(where + " does not exist");
  if (in_head && credential->value.size() > kMaxHeadValue) {
    return Unusable(where + " has " + std::to_string(credential->value.size()) +
                    " bytes, which is more than the " + std::to_string(kMaxHeadValue) +
                    " that fit into the head of a request");
  }
  // A line end in the value would begin a header, or a request, of its own.
  if (in_header && !http::ValidField("x", credential->value)) {
    return Unusable(where + " has a character that no header can have, such as a line end");
  }
  return {};
}

Status CheckUses(const Vault& vault, const Binding& binding) {
  for (const HeaderEntry& entry : binding.auth.headers) {
    ATOLL_TRY(CheckUse(vault, binding, entry.credential, true, true));
  }
  for (const Substitution& one : binding.auth.substitutions) {
    const bool in_header = one.Has(Surface::kHeader);
    const bool in_head = in_header || one.Has(Surface::kPath) || one.Has(Surface::kQuery);
    ATOLL_TRY(CheckUse(vault, binding, one.credential, in_header, in_head));
  }
  return {};
}

}  // namespace

const char* SchemeName(Scheme scheme) {
  return scheme == Scheme::kHttps ? "https" : "http";
}

const char* AuthKindName(AuthKind kind) {
  static constexpr std::array kNames = {"passthrough", "bearer", "basic", "apiKey",
                                        "customHeaders"};
  return kNames[static_cast<size_t>(kind)];
}

const char* SurfaceName(Surface surface) {
  static constexpr std::array kNames = {"path", "query", "header", "body"};
  return kNames[static_cast<size_t>(surface)];
}

bool Substitution::Has(Surface surface) const {
  return std::find(in.begin(), in.end(), surface) != in.end();
}

const Credential* FindCredential(const Vault& vault, std::string_view name) {
  return FindByName(vault.credentials, name);
}

const Binding* FindBinding(const Vault& vault, std::string_view name) {
  return FindByName(vault.bindings, name);
}

std::string HeaderValue(AuthKind kind, std::string_view value) {
  const char* const scheme =
      kind == AuthKind::kBearer ? "Bearer " : (kind == AuthKind::kBasic ? "Basic " : "");
  return std::string(scheme).append(value);
}

Status Check(const Vault& vault) {
  ATOLL_TRY(CheckOrder(vault.credentials, "credential"));
  ATOLL_TRY(CheckOrder(vault.bindings, "binding"));
  ATOLL_TRY(CheckSize(vault));
  for (const Binding& binding : vault.bindings) ATOLL_TRY(CheckUses(vault, binding));
  for (size_t i = 0; i < vault.bindings.size(); ++i) {
    for (size_t j = i + 1; j < vault.bindings.size(); ++j) {
      if (!Overlap(vault.bindings[i].match, vault.bindings[j].match)) continue;
      return Unusable("bindings " + Quoted(vault.bindings[i].name) + " and " +
                      Quoted(vault.bindings[j].name) + " take the same requests");
    }
  }
  return {};
}

}  // namespace atl::vault
