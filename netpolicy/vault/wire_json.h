// A whole vault, values and all, as the daemon hands it to the program that intercepts. For that
// one unix socket: nobody else may be given it.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "netpolicy/vault/document.h"
#include "runtime/base/result.h"

namespace atl::vault {

// More than Encode ever makes of a vault that Check has passed: a byte of a string takes at most
// six in JSON, and the rest is small.
inline constexpr size_t kMaxEncoded = 8 << 20;

// JSON, of at most kMaxEncoded bytes.
std::string Encode(const Vault& vault);

// What Encode made. The peer is trusted, and still held to all that ParseVault asks of a stranger.
// kInvalidArgument: what is wrong with it; no value is repeated.
Result<Vault> Decode(std::string_view bytes);

}  // namespace atl::vault
