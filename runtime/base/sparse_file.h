// Files with holes: what is zeros takes no room on a disk.
//
// Thread rule: pure functions over a descriptor.
#pragma once

#include <string_view>

#include "runtime/base/result.h"

namespace atl {

// Writes all of `bytes` at the file offset and leaves holes in place of blocks of zeros. For a new
// regular file that is written from its beginning to its end; then EndWithHoles gives it its size.
// Errors are those of write(2) and lseek(2).
Status WriteWithHoles(int fd, std::string_view bytes);
Status EndWithHoles(int fd);

}  // namespace atl
