// The secret with which clients authenticate to a sandbox's execd.
#pragma once

#include <string>

namespace atl::sandbox {

// 32 random bytes in the URL-safe base64 alphabet, without padding: 43 characters.
std::string NewAccessToken();

}  // namespace atl::sandbox
