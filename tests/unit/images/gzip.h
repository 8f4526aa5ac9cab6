// gzip in memory, through libarchive: the unpacker's own dependency.
#pragma once

#include <string>

namespace atl::images {

std::string Gzip(const std::string& bytes);

}  // namespace atl::images
