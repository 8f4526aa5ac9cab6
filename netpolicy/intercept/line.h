// Messages from the daemon to an interceptor, over a SOCK_SEQPACKET socket. One message is one
// packet, and descriptors travel with the packet that refers to them. The interceptor answers Begin
// with a packet: kReady, or the reason why it cannot start. It ends when the socket is closed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "netpolicy/intercept/authority.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/bytes.h"

namespace atl::intercept {

inline constexpr int kLineFd = 3;  // the interceptor's end of the socket
inline constexpr size_t kMaxMessage = 16 << 10;
inline constexpr std::string_view kReady = "ready";

// The first message; sent once.
struct Begin {
  static constexpr uint8_t kType = 1;
  Authority authority;
  UniqueFd authorities;  // PEM file of the authorities that servers are verified against

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.authority, self.authorities);
  }
};

// Sets the vault for requests that begin from now on.
struct SetVault {
  static constexpr uint8_t kType = 2;
  UniqueFd vault;  // a sealed memfd with the result of vault::Encode

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.vault);
  }
};

// Hands over both ends of a connection. The interceptor closes `lease` when the connection has
// ended.
struct Serve {
  static constexpr uint8_t kType = 3;
  std::string name;  // name of the server
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
