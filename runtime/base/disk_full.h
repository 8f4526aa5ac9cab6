// Returns true for errors that mean that a file system, or a quota on it, is full. The operation
// may succeed once space is freed.
#pragma once

#include <cerrno>

#include "runtime/base/result.h"

namespace atl {

inline bool IsDiskFull(const Error& error) {
  return error.error_number() == ENOSPC || error.error_number() == EDQUOT;
}

}  // namespace atl
