// The part of a vault that clients are shown. It never has a value, a placeholder, or the names of
// headers other than that of an apiKey. Compact JSON, with the members in OpenSandbox's order.
//
// Thread rule: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "netpolicy/vault/document.h"

namespace atl::vault {

// {"revision":1,"credentials":[…],"bindings":[…]}, the answer of POST, PATCH and GET.
std::string VaultMetadata(const Vault& vault);

// {"revision":1,"credentials":[{"name":"token","sourceType":"inline","revision":1}]}
std::string CredentialListMetadata(const Vault& vault);
// {"revision":1,"bindings":[{"name":"api","revision":1,"match":{…},"auth":{"type":"bearer"}}]}
// A binding's revision is the vault's.
std::string BindingListMetadata(const Vault& vault);

// Return the metadata of one object. Empty if no object has that name. Blanks around the name are
// ignored.
std::optional<std::string> CredentialMetadata(const Vault& vault, std::string_view name);
std::optional<std::string> BindingMetadata(const Vault& vault, std::string_view name);

}  // namespace atl::vault
