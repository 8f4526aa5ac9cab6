// Prepares a sandbox of a template before a client asks for it. The daemon sends a Preparation to
// execd's listening socket, with kInternalHeader, as the body of
//
//   POST kPrepareRoute                  200 when all of it is done; 500 with the reason, for users
//
// If the daemon closes the connection earlier, the preparation is cancelled and its processes are
// killed. The answer is written in the sandbox, so it is hostile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/wire/bytes.h"

namespace atl::wire {

inline constexpr std::string_view kPrepareRoute = "/.atoll/prepare";
inline constexpr size_t kMaxPreparation = 128 << 10;
inline constexpr size_t kMaxPreparationAnswer = 8 << 10;
inline constexpr size_t kMaxWarmUpWords = 1024;

// Steps in this order, run as the image's user. An empty or zero member means no such step.
struct Preparation {
  uint32_t probe_port = 0;    // port on 127.0.0.1; tried until it accepts a connection
  std::string probe_command;  // a shell command; tried until it succeeds
  uint32_t wait_seconds = 0;
  std::vector<std::string> command;  // must succeed
  std::string kernel;                // the language of a kernel to start ahead
  uint32_t timeout_seconds = 60;     // deadline of the whole preparation

  bool operator==(const Preparation&) const = default;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.probe_port, self.probe_command, self.wait_seconds);
    io.List(self.command, kMaxWarmUpWords);
    io(self.kernel, self.timeout_seconds);
  }
};

}  // namespace atl::wire
