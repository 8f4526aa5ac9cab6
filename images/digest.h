// Digests in the form of the OCI image specification: "sha256:" and 64 hexadecimal digits. No other
// algorithm is supported.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::images {

bool IsSha256Digest(std::string_view text);

// Returns the digest text of 32 raw bytes.
std::string DigestText(std::string_view raw);

std::string Sha256Of(std::string_view bytes);
// Hashes the whole file; the file offset is ignored and unchanged. Blocks.
Result<std::string> Sha256OfFile(int fd);

// Returns "HEX" for "sha256:HEX".
std::string HexOf(std::string_view digest);

}  // namespace atl::images
