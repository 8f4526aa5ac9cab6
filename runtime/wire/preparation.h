// What makes a sandbox of a template ready before anybody asks for it. The daemon sends it to
// execd's listening socket, with kInternalHeader, as the body of
//
//   POST kPrepareRoute                  200 when all of it is done; 500 with the reason, for people
//
// and who closes the connection before gives it up: what runs of it then is killed. The answer is
// written inside the sandbox: hostile.
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

// One after the other, as the image's user; whatever is empty or 0 is left out.
struct Preparation {
  uint32_t probe_port = 0;    // of 127.0.0.1: tried until somebody takes the connection
  std::string probe_command;  // of the shell: tried until it succeeds
  uint32_t wait_seconds = 0;
  std::vector<std::string> command;  // has to succeed
  std::string kernel;                // a language: of it a kernel is started ahead
  uint32_t timeout_seconds = 60;     // for all of it

  bool operator==(const Preparation&) const = default;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.probe_port, self.probe_command, self.wait_seconds);
    io.List(self.command, kMaxWarmUpWords);
    io(self.kernel, self.timeout_seconds);
  }
};

}  // namespace atl::wire
