// Compression in memory, through libarchive: the unpacker's own dependency.
#pragma once

#include <string>

namespace atl::images {

// `with`: "gzip", "zstd", "xz" or "bzip2".
std::string Compress(const std::string& bytes, const char* with);
std::string Gzip(const std::string& bytes);

}  // namespace atl::images
