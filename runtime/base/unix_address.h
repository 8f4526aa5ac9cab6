// Addresses of Unix sockets in the file system.
#pragma once

#include <sys/un.h>

#include <string>

#include "runtime/base/result.h"

namespace atl {

// Returns the address to bind or connect to. kInvalidArgument: longer than the 107 bytes of
// unix(7).
Result<sockaddr_un> UnixAddress(const std::string& path);

}  // namespace atl
