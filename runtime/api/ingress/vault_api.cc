#include "runtime/api/ingress/vault_api.h"

#include <optional>
#include <utility>

#include "netpolicy/vault/document.h"
#include "netpolicy/vault/document_json.h"
#include "netpolicy/vault/metadata_json.h"
#include "runtime/api/ingress/plain_answer.h"
#include "runtime/base/wiping_memory.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

using sandbox::Changes;

constexpr char kVaultMethods[] = "GET, POST, PATCH, DELETE";
constexpr char kNone[] = "this sandbox has no credential vault: POST /credential-vault";

// Answers once the vault is in force.
void RespondWhenSet(const Call& call, Changes& changes, const std::string& id, int status,
                    vault::Vault vault) {
  std::string answer = vault::VaultMetadata(vault);
  if (call.audit()) {
    std::string names;
    for (const vault::Credential& credential : vault.credentials) {
      names.append(names.empty() ? "" : ", ").append(credential.name);
    }
    call.audit()->AddFact("credentials", std::move(names));
  }
  changes.SetVault(call.caller(), id, std::move(vault),
                   [call, status, answer = std::move(answer)](const Status& set) {
                     if (set) return RespondJson(call, status, answer);
                     if (set.error().code() == Code::kResourceExhausted) {
                       return RespondText(call, 503, set.error().message());
                     }
                     RespondError(call, set.error());
                   });
}

void Create(const Call& call, Changes& changes, const std::string& id, const std::string& body) {
  auto found = changes.FindVault(call.caller(), id);
  if (!found) return RespondError(call, found.error());
  if (*found != nullptr) {
    return RespondText(call, 409, "this sandbox has a credential vault: PATCH or DELETE it");
  }
  auto vault = vault::ParseVault(body);
  if (!vault) return RespondError(call, vault.error());
  RespondWhenSet(call, changes, id, 201, std::move(*vault));
}

void ChangeVault(const Call& call, Changes& changes, const std::string& id,
                 const std::string& body) {
  auto found = changes.FindVault(call.caller(), id);
  if (!found) return RespondError(call, found.error());
  if (*found == nullptr) return RespondText(call, 404, kNone);
  auto vault = vault::Patch(**found, body);
  if (!vault) {
    // kFailedPrecondition is about the vault here, and about the sandbox everywhere else.
    const bool other = vault.error().code() == Code::kFailedPrecondition;
    return other ? RespondText(call, 409, vault.error().message())
                 : RespondError(call, vault.error());
  }
  RespondWhenSet(call, changes, id, 200, std::move(*vault));
}

// Returns the answer to a GET of `rest`; nothing if it does not exist.
std::optional<std::string> Shown(const vault::Vault& vault, std::string_view rest) {
  if (rest.empty()) return vault::VaultMetadata(vault);
  if (rest == "/credentials") return vault::CredentialListMetadata(vault);
  if (rest == "/bindings") return vault::BindingListMetadata(vault);
  for (const std::string_view list : {"/credentials/", "/bindings/"}) {
    if (!rest.starts_with(list)) continue;
    std::string name;
    if (!http::PercentDecode(rest.substr(list.size()), &name)) return std::nullopt;
    return list == "/bindings/" ? vault::BindingMetadata(vault, name)
                                : vault::CredentialMetadata(vault, name);
  }
  return std::nullopt;
}

void Show(const Call& call, Changes& changes, const std::string& id, std::string_view rest) {
  auto found = changes.FindVault(call.caller(), id);
  if (!found) return RespondError(call, found.error());
  if (*found == nullptr) return RespondText(call, 404, kNone);
  if (auto shown = Shown(**found, rest)) return RespondJson(call, 200, std::move(*shown));
  RespondText(call, 404, "the credential vault has nothing of that name");
}

void Remove(const Call& call, Changes& changes, const std::string& id) {
  auto found = changes.FindVault(call.caller(), id);
  if (!found) return RespondError(call, found.error());
  if (*found == nullptr) return RespondText(call, 404, kNone);
  if (Status removed = changes.RemoveVault(call.caller(), id); !removed) {
    return RespondError(call, removed.error());
  }
  http::Response response;
  response.status = 204;
  call.Respond(std::move(response));
}

}  // namespace

void ServeVault(const Call& call, Changes& changes, const std::string& id, std::string_view rest) {
  const std::string& method = call.request().method;
  // Upstream's proxy fetches the values here, on a socket within its sidecar. Atoll returns them to
  // nobody.
  if (rest == "/_active") return RespondText(call, 403, "the values are shown to nobody");
  if (!rest.empty()) {
    if (method != "GET") return RespondAllowed(call, "GET");
    return Show(call, changes, id, rest);
  }
  if (method == "GET") return Show(call, changes, id, rest);
  if (method == "DELETE") return Remove(call, changes, id);
  if (method != "POST" && method != "PATCH") return RespondAllowed(call, kVaultMethods);
  call.exchange().ReadBody(
      vault::kMaxVaultJson, [call, &changes, id, method](Result<std::string> body) {
        if (!body) return RespondError(call, body.error());
        method == "POST" ? Create(call, changes, id, *body) : ChangeVault(call, changes, id, *body);
        WipeStack();
      });
}

}  // namespace atl::api
