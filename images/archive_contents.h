// Reads a split image archive (see images/unpack/split.h): follows index, manifest and config, and
// compares every byte that is used with its digest. Blocks: for a pool thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "images/image.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::images {

struct ArchiveLayer {
  std::string blob_digest;  // verified, unless it is here already
  std::string diff_id;      // as the config promises
};
struct ArchiveContents {
  std::vector<std::string> names;  // that the archive has for it; may be none
  std::string manifest_digest;
  ImageConfig config;
  std::string facts;                 // see Image
  std::vector<ArchiveLayer> layers;  // lowest first, at least one
};

// How many names an archive's images may have together.
inline constexpr size_t kMaxArchiveNames = 64;

// The image that is `wanted`, the name to import under, or all of them if it is empty. `directory`:
// where the unpacker has put the members; an image without layers gets an empty one there. Of
// layers that are `here` nothing is read, and the archive need not have them.
Result<std::vector<ArchiveContents>> ReadArchiveContents(
    int directory, std::string_view wanted,
    const std::function<bool(const std::string& blob_digest)>& here);

// The blob as a fresh descriptor at its beginning. Regular files only: the directory was filled by
// a process that had read a hostile archive.
Result<UniqueFd> OpenBlob(int directory, std::string_view digest);

}  // namespace atl::images
