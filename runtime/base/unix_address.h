// Names of Unix sockets in the file system.
#pragma once

#include <sys/un.h>

#include <string>

#include "runtime/base/result.h"

namespace atl {

// The address to bind or connect to. kInvalidArgument: longer than the 107 bytes that unix(7) has
// room for.
Result<sockaddr_un> UnixAddress(const std::string& path);

}  // namespace atl
