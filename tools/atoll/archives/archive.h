// Owns an archive object of libarchive.
#pragma once

#include <archive.h>

#include <cstddef>
#include <memory>

namespace atl::cli {

struct FreeArchive {
  void operator()(archive* a) const { archive_free(a); }
};
using Archive = std::unique_ptr<archive, FreeArchive>;

// Archives are read, and files copied into them, in pieces of this size.
inline constexpr size_t kArchivePart = 256 << 10;

}  // namespace atl::cli
