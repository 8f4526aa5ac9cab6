// The name of the socket at which a sandbox's execd listens.
#pragma once

#include <cstddef>
#include <string>

namespace atl::sandbox {

// Its sockets' names must fit sockaddr_un: with "/<id>.sock" behind it, 107 bytes.
inline constexpr size_t kMaxSocketDirectory = 107 - 1 - 36 - 5;
// `host_id`: of the sandbox (sandbox.h).
inline std::string SocketPath(const std::string& directory, const std::string& host_id) {
  return directory + "/" + host_id + ".sock";
}

}  // namespace atl::sandbox
