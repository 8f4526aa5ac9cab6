// What clients are shown of a vault: never a value, a placeholder, or which headers are set beyond
// the name of an apiKey's. Compact JSON, members in the order of OpenSandbox's.
//
// Thread rule: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "netpolicy/vault/document.h"

namespace atl::vault {

// {"revision":1,"credentials":[…],"bindings":[…]}, as POST, PATCH and GET answer.
std::string VaultMetadata(const Vault& vault);

// {"revision":1,"credentials":[{"name":"token","sourceType":"inline","revision":1}]}
std::string CredentialListMetadata(const Vault& vault);
// {"revision":1,"bindings":[{"name":"api","revision":1,"match":{…},"auth":{"type":"bearer"}}]}
// A binding's revision is the vault's.
std::string BindingListMetadata(const Vault& vault);

// One of them; nothing if there is none of that name. Blanks around the name do not count.
std::optional<std::string> CredentialMetadata(const Vault& vault, std::string_view name);
std::optional<std::string> BindingMetadata(const Vault& vault, std::string_view name);

}  // namespace atl::vault
