// Layers of pulls that were interrupted, as files that bear their digests: /var/tmp/atoll-pull-UID,
// or in TMPDIR; nobody else may write there. They are not compared with their digests: the import
// does that with whatever it is given.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::cli {

// Both move a file between the directory `blobs` and the place. What is no file of `size` bytes
// that has no other name is not moved. Whether it was.

// Into a file of `owner` (0: ours).
bool TakeKeptLayer(int blobs, const std::string& name, uint64_t size, uint32_t owner);
bool KeepLayer(int blobs, const std::string& name, uint64_t size);

// For people.
std::string KeptLayersPlace();

}  // namespace atl::cli
