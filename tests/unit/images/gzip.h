// Compresses in memory through libarchive, as the unpacker decompresses.
#pragma once

#include <string>

namespace atl::images {

// Compresses `bytes`. `with` is "gzip", "zstd", "xz" or "bzip2".
std::string Compress(const std::string& bytes, const char* with);
std::string Gzip(const std::string& bytes);

}  // namespace atl::images
