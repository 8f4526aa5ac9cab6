#include "netpolicy/vault/metadata_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "netpolicy/vault/binding_json.h"
#include "netpolicy/vault/fields.h"
#include "runtime/base/json_text.h"

namespace atl::vault {
namespace {

using nlohmann::ordered_json;

ordered_json ToJson(const Credential& credential) {
  return {{"name", credential.name}, {"sourceType", "inline"}, {"revision", credential.revision}};
}

ordered_json ToJson(const Binding& binding, int64_t revision) {
  ordered_json auth = {{"type", AuthKindName(binding.auth.kind)}};
  if (binding.auth.kind == AuthKind::kApiKey) auth["name"] = binding.auth.headers.front().name;
  return {{"name", binding.name},
          {"revision", revision},
          {"match", MatchToJson(binding.match)},
          {"auth", std::move(auth)}};
}

ordered_json CredentialsOf(const Vault& vault) {
  ordered_json list = ordered_json::array();
  for (const Credential& one : vault.credentials) list.push_back(ToJson(one));
  return list;
}

ordered_json BindingsOf(const Vault& vault) {
  ordered_json list = ordered_json::array();
  for (const Binding& one : vault.bindings) list.push_back(ToJson(one, vault.revision));
  return list;
}

// The strings came from JSON, so none is invalid; OrderedJsonText is used because a writer must not
// throw.
std::string Text(const ordered_json& value) {
  return OrderedJsonText(value);
}

}  // namespace

std::string VaultMetadata(const Vault& vault) {
  return Text({{"revision", vault.revision},
               {"credentials", CredentialsOf(vault)},
               {"bindings", BindingsOf(vault)}});
}

std::string CredentialListMetadata(const Vault& vault) {
  return Text({{"revision", vault.revision}, {"credentials", CredentialsOf(vault)}});
}

std::string BindingListMetadata(const Vault& vault) {
  return Text({{"revision", vault.revision}, {"bindings", BindingsOf(vault)}});
}

std::optional<std::string> CredentialMetadata(const Vault& vault, std::string_view name) {
  const Credential* found = FindCredential(vault, Trimmed(name));
  if (found == nullptr) return std::nullopt;
  return Text(ToJson(*found));
}

std::optional<std::string> BindingMetadata(const Vault& vault, std::string_view name) {
  const Binding* found = FindBinding(vault, Trimmed(name));
  if (found == nullptr) return std::nullopt;
  return Text(ToJson(*found, vault.revision));
}

}  // namespace atl::vault
