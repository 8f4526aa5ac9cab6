// Layers kept from interrupted pulls: files named by their digests in /var/tmp/atoll-pull-UID, or
// in TMPDIR. Only this user may write there. Their digests are not verified here, because the
// import verifies all of its input.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::cli {

// Both move a file between the directory `blobs` and the store of kept layers. They move only a
// regular file of `size` bytes without another hard link. Return true if they moved it.

// Moves the layer to `blobs` and gives the file to `owner` (0: ours).
bool TakeKeptLayer(int blobs, const std::string& name, uint64_t size, uint32_t owner);
bool KeepLayer(int blobs, const std::string& name, uint64_t size);

// Returns the directory, for messages.
std::string KeptLayersPlace();

}  // namespace atl::cli
