// Reads files as root in a directory where unprivileged users may put anything under any name, such
// as a link to a file that only root may read, or a FIFO without a writer.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <initializer_list>
#include <span>
#include <string>

#include "runtime/base/result.h"

namespace atl {

// Returns the content of a regular file with exactly one name that belongs to one of `owners`
// (empty: to anybody). A link is not followed, and the call does not block. kFailedPrecondition:
// any other kind of file. kResourceExhausted: longer than `limit`.
Result<std::string> ReadPlainFileAt(int dirfd, const std::string& path, size_t limit,
                                    std::span<const uid_t> owners);

// kFailedPrecondition, with what to do: the file or directory belongs to none of `owners`, or its
// group or everybody may write to it. Whoever may do so controls a process that starts as root.
Status CheckWriters(const std::string& path, const struct stat& info,
                    std::initializer_list<uid_t> owners);

}  // namespace atl
