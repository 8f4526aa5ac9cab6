#include "netpolicy/vault/wire_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "netpolicy/vault/binding_json.h"
#include "runtime/base/json_text.h"

namespace atl::vault {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json SubstitutionsToJson(const Auth& auth) {
  ordered_json list = ordered_json::array();
  for (const Substitution& one : auth.substitutions) {
    ordered_json in = ordered_json::array();
    for (const Surface surface : one.in) in.push_back(SurfaceName(surface));
    list.push_back(
        {{"credential", one.credential}, {"placeholder", one.placeholder}, {"in", std::move(in)}});
  }
  return list;
}

// Uses the form that clients write, so that one parser reads both.
ordered_json AuthToJson(const Auth& auth) {
  ordered_json value = {{"type", AuthKindName(auth.kind)}};
  if (auth.kind == AuthKind::kCustomHeaders) {
    ordered_json list = ordered_json::array();
    for (const HeaderEntry& entry : auth.headers) {
      list.push_back({{"name", entry.name}, {"credential", entry.credential}});
    }
    value["headers"] = std::move(list);
  } else if (!auth.headers.empty()) {
    if (auth.kind == AuthKind::kApiKey) value["name"] = auth.headers.front().name;
    value["credential"] = auth.headers.front().credential;
  }
  if (!auth.substitutions.empty()) value["substitutions"] = SubstitutionsToJson(auth);
  return value;
}

Result<int64_t> ParseRevision(const json& value, const std::string& where, int64_t most) {
  const bool fits = value.is_number_integer() && value >= 1 && value <= most;
  if (!fits) {
    return Fail(WrongAt(where, "use a whole number from 1 to " + std::to_string(most)));
  }
  return value.get<int64_t>();
}

Result<Credential> ReadCredential(const json& value, const std::string& where, int64_t revision) {
  ATOLL_TRY(CheckMembers(value, where, {"name", "source", "revision"}));
  ATOLL_ASSIGN(Credential credential, ParseCredential(value, where));
  ATOLL_ASSIGN(credential.revision,
               ParseRevision(Member(value, "revision"), where + ".revision", revision));
  return credential;
}

}  // namespace

std::string Encode(const Vault& vault) {
  ordered_json credentials = ordered_json::array();
  for (const Credential& one : vault.credentials) {
    credentials.push_back(
        {{"name", one.name}, {"source", {{"value", one.value}}}, {"revision", one.revision}});
  }
  ordered_json bindings = ordered_json::array();
  for (const Binding& one : vault.bindings) {
    bindings.push_back(
        {{"name", one.name}, {"match", MatchToJson(one.match)}, {"auth", AuthToJson(one.auth)}});
  }
  const ordered_json value = {{"revision", vault.revision},
                              {"credentials", std::move(credentials)},
                              {"bindings", std::move(bindings)}};
  return OrderedJsonText(value);
}

Result<Vault> Decode(std::string_view bytes) {
  ATOLL_ASSIGN(const json value, ParseBounded(bytes, kMaxEncoded));
  ATOLL_TRY(CheckMembers(value, "", {"revision", "credentials", "bindings"}));
  Vault vault;
  ATOLL_ASSIGN(vault.revision, ParseRevision(Member(value, "revision"), "revision", INT64_MAX));
  const json& credentials = Member(value, "credentials");
  ATOLL_TRY(CheckList(credentials, "credentials", kMaxCredentials));
  for (size_t i = 0; i < credentials.size(); ++i) {
    ATOLL_ASSIGN(Credential one,
                 ReadCredential(credentials[i], Element("credentials", i), vault.revision));
    vault.credentials.push_back(std::move(one));
  }
  const json& bindings = Member(value, "bindings");
  ATOLL_TRY(CheckList(bindings, "bindings", kMaxBindings));
  for (size_t i = 0; i < bindings.size(); ++i) {
    ATOLL_ASSIGN(Binding one, ParseBinding(bindings[i], Element("bindings", i)));
    vault.bindings.push_back(std::move(one));
  }
  ATOLL_TRY(Check(vault));
  return vault;
}

}  // namespace atl::vault
