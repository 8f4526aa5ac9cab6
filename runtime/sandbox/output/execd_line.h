// A connection of the daemon's own to a sandbox's execd: a request of HTTP, which may go on as a
// line of frames (the entrypoint's output, the requests for isolated sessions).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::sandbox {

// Does not block. EAGAIN: its queue of connections is full, as it is frozen or very busy.
Result<UniqueFd> ConnectToExecd(const std::string& execd_socket);

// Sends a new connection's only request, whole or not at all. `what`: method and target.
// `access_token`: the sandbox's, empty where it has none.
Status SendRequest(int socket, std::string_view what, const std::string& access_token,
                   std::string_view body);

// Asks a new connection's other end to switch. `target`: wire::kOutputRoute or another that execd
// gives to nobody but the daemon.
Status RequestLine(int socket, const std::string& target, const std::string& access_token);

// What comes before the first frame.
class LineHead {
 public:
  // Bytes behind the head, once that is whole; nothing before. kUnavailable: execd did not switch.
  Result<std::optional<std::string>> Take(std::string_view bytes);

 private:
  std::string head_;
};

}  // namespace atl::sandbox
