// The path of the socket at which a sandbox's execd listens.
#pragma once

#include <cstddef>
#include <string>

namespace atl::sandbox {

// Longest allowed directory: sun_path of sockaddr_un holds 107 bytes, including "/<id>.sock".
inline constexpr size_t kMaxSocketDirectory = 107 - 1 - 36 - 5;
// `host_id`: see sandbox.h.
inline std::string SocketPath(const std::string& directory, const std::string& host_id) {
  return directory + "/" + host_id + ".sock";
}

}  // namespace atl::sandbox
