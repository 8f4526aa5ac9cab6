#include "runtime/base/unix_address.h"

#include <sys/socket.h>

#include <cstring>

namespace atl {

Result<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // One byte is for the closing NUL.
  if (path.size() >= sizeof address.sun_path) {
    return Fail(Code::kInvalidArgument,
                "'" + path + "' is too long for a socket: choose a shorter run_dir");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace atl
