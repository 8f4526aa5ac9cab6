// Digests as the OCI image specification writes them: "sha256:" and 64 hexadecimal digits; no other
// algorithm is in use.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::images {

bool IsSha256Digest(std::string_view text);

// Of the 32 bytes of one.
std::string DigestText(std::string_view raw);

std::string Sha256Of(std::string_view bytes);
// Of the whole file, wherever its offset stands. Blocks.
Result<std::string> Sha256OfFile(int fd);

// "HEX" of "sha256:HEX".
std::string HexOf(std::string_view digest);

}  // namespace atl::images
