// Files that root reads in a directory where somebody without its rights may put anything under any
// name: a link to what only root may read, or a FIFO that nobody writes to.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>

#include "runtime/base/result.h"

namespace atl {

// The content of a regular file with one name, which belongs to one of `owners` (empty: to
// anybody). A link in place of the name is not followed, and nothing is waited for.
// kFailedPrecondition: it is something else; kResourceExhausted: longer than `limit`.
Result<std::string> ReadPlainFileAt(int dirfd, const std::string& path, size_t limit,
                                    std::span<const uid_t> owners);

}  // namespace atl
