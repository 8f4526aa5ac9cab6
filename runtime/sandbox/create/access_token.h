// The secret that a sandbox's execd asks for.
#pragma once

#include <string>

namespace atl::sandbox {

// 32 random bytes in the URL-safe base64 alphabet, without padding: 43 characters.
std::string NewAccessToken();

}  // namespace atl::sandbox
