// An image, from its registry into an archive as the store imports it.
//
// Nothing is taken for what it is said to be: the import compares each blob with its digest. Here
// counts only that nothing grows beyond its bounds.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>

#include "images/registry/session.h"
#include "runtime/base/result.h"

namespace atl::images::registry {

// Written by the thread that fetches, read by any.
struct Amount {
  std::atomic<uint64_t> received = 0;
  std::atomic<uint64_t> total = 0;  // 0: not known yet
};

// Writes the image that `session` is for into the empty file `archive`, without the layers that are
// `here` (digests of blobs); that it is called `name` is what the archive says. Goes on where a
// transfer breaks off. Blocks. kResourceExhausted: it is larger than `max_bytes`, or than what is
// free where the archive is.
Status FetchImage(Session& session, const std::string& name, const std::set<std::string>& here,
                  int archive, uint64_t max_bytes, Amount& amount);

}  // namespace atl::images::registry
