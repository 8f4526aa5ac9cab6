// Fetches an image from its registry into an archive that the store can import.
//
// Nothing is verified here, because the import compares each blob with its digest. Only sizes are
// limited.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>

#include "images/registry/session.h"
#include "runtime/base/result.h"

namespace atl::images::registry {

// Progress of a fetch. Written by the thread that fetches, read by any thread.
struct Amount {
  std::atomic<uint64_t> received = 0;
  std::atomic<uint64_t> total = 0;  // 0: unknown
};

// Writes the image that `session` refers to into the empty file `archive`, under the name `name`.
// Layers that are in `here` (blob digests) are left out. Continues interrupted transfers. Blocks.
// kResourceExhausted: the image is larger than `max_bytes`, or than the free space of the archive's
// file system.
Status FetchImage(Session& session, const std::string& name, const std::set<std::string>& here,
                  int archive, uint64_t max_bytes, Amount& amount);

}  // namespace atl::images::registry
