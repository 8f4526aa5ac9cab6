// Reads a split image archive (images/unpack/split.h): follows index, manifest and config, and
// compares every byte that is used with its digest. Blocks; call it on a pool thread.
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
  std::string blob_digest;  // verified, unless the store already has the layer
  std::string diff_id;      // the config's value
};
struct ArchiveContents {
  std::vector<std::string> names;  // names that the archive gives the image; may be empty
  std::string manifest_digest;
  ImageConfig config;
  std::string facts;                 // see Image::facts
  std::vector<ArchiveLayer> layers;  // lowest first, at least one
};

// Most names that all images of an archive may have together.
inline constexpr size_t kMaxArchiveNames = 64;

// Returns the image `wanted`, which is the name to import under, or all images if `wanted` is
// empty. `directory` is where the unpacker has put the members; an image without layers gets an
// empty layer there. Layers for which `here` returns true are not read and may be missing in the
// archive.
Result<std::vector<ArchiveContents>> ReadArchiveContents(
    int directory, std::string_view wanted,
    const std::function<bool(const std::string& blob_digest)>& here);

// Opens the blob for reading, at its beginning. Accepts only regular files, because the directory
// was filled by a process that had read a hostile archive.
Result<UniqueFd> OpenBlob(int directory, std::string_view digest);

}  // namespace atl::images
