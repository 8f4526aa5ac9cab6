// Errors that say that a file system, or a quota on it, has no room: whatever asked for it may work
// once somebody has made some.
#pragma once

#include <cerrno>

#include "runtime/base/result.h"

namespace atl {

inline bool IsDiskFull(const Error& error) {
  return error.error_number() == ENOSPC || error.error_number() == EDQUOT;
}

}  // namespace atl
