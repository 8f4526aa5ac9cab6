// What the daemon tells an interceptor, over a SOCK_SEQPACKET socket: one message is one packet,
// descriptors travel with the packet that names them. The interceptor answers Begin with a packet:
// kReady, or why it cannot be one. Its end is the end of the socket.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "netpolicy/intercept/authority.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/bytes.h"

namespace atl::intercept {

inline constexpr int kLineFd = 3;  // in the interceptor
inline constexpr size_t kMaxMessage = 16 << 10;
inline constexpr std::string_view kReady = "ready";

// The first, and once.
struct Begin {
  static constexpr uint8_t kType = 1;
  Authority authority;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.authority);
  }
};

// What is put into requests that begin from now on.
struct SetVault {
  static constexpr uint8_t kType = 2;
  UniqueFd vault;  // a sealed memfd of what vault::Encode has made

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.vault);
  }
};

// Both ends of a connection; `lease` is closed when it is over.
struct Serve {
  static constexpr uint8_t kType = 3;
  std::string name;  // of the server
  bool tls = false;
  UniqueFd client, server, lease;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.name, self.tls, self.client, self.server, self.lease);
  }
};

struct Message {
  std::variant<Begin, SetVault, Serve> value;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.value);
  }
};

}  // namespace atl::intercept
