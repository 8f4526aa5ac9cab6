// The daemon's own connection to a sandbox's execd: an HTTP request, which may switch to a stream
// of frames (the entrypoint's output, the requests for isolated sessions).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::sandbox {

// Connects without blocking. EAGAIN: execd's accept queue is full, because the sandbox is frozen or
// very busy.
Result<UniqueFd> ConnectToExecd(const std::string& execd_socket);

// Sends the only request of a new connection, whole or not at all. `what`: method and target.
// `access_token`: the sandbox's token; empty if it has none.
Status SendRequest(int socket, std::string_view what, const std::string& access_token,
                   std::string_view body);

// Asks execd to switch a new connection to frames. `target`: wire::kOutputRoute or another route
// that execd serves to the daemon only.
Status RequestLine(int socket, const std::string& target, const std::string& access_token);

// Parses the HTTP answer before the first frame.
class LineHead {
 public:
  // Returns nothing until the head is complete, then the bytes after it. kUnavailable: execd did
  // not switch.
  Result<std::optional<std::string>> Take(std::string_view bytes);

 private:
  std::string head_;
};

}  // namespace atl::sandbox
