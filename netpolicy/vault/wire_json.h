// A whole vault, including its values, in the form that the daemon sends to the interceptor. Send
// it over their unix socket only; nobody else may get it.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "netpolicy/vault/document.h"
#include "runtime/base/result.h"

namespace atl::vault {

// Larger than any result of Encode for a vault that has passed Check: JSON needs at most six bytes
// for a byte of a string, and the rest is small.
inline constexpr size_t kMaxEncoded = 8 << 20;

// Returns JSON of at most kMaxEncoded bytes.
std::string Encode(const Vault& vault);

// Parses the result of Encode. The peer is trusted, but everything that ParseVault checks is
// checked here too. kInvalidArgument: what is wrong; the error repeats no value.
Result<Vault> Decode(std::string_view bytes);

}  // namespace atl::vault
