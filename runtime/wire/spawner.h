// The protocol between daemon and spawner, over one SOCK_SEQPACKET connection to
// <run_dir>/spawner.sock. One message is one packet. Descriptors travel with the packet that names
// them.
//
//   daemon ── Request{number, message} ──► spawner    any number, at any time
//   daemon ◄── Reply{number, answer} ───── spawner    one for each request, when it is carried out,
//                                                     not always in order; several Greetings
//   daemon ◄── Reply{0, Exited} ────────── spawner    a sandbox's first process has ended
//
// Neither side drops a packet because the other one is slow: what does not fit into the socket is
// queued and sent later. A request whose sender has closed the connection is not carried out,
// except Destroy, which the daemon's records would repeat anyway.
//
// One daemon at a time: a new connection replaces the old one. The spawner trusts nothing in a
// message: it checks each field against its own configuration.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/wire/reply.h"
#include "runtime/wire/request.h"

namespace atl::wire {

// Far below net.core.wmem_default, which bounds a packet.
inline constexpr size_t kMaxSpawnerMessage = 96 << 10;
inline constexpr size_t kMaxSpawnerReply = 256 << 10;

struct Request {
  uint64_t number = 0;
  Message message;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.number, self.message);
  }
};

struct Reply {
  uint64_t number = 0;
  Answer answer;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.number, self.answer);
  }
};

// Decodes a packet. `descriptors` came with it, and the message takes its own. A wrong number of
// descriptors is an error, like a wrong number of bytes.
Result<Request> DecodeRequest(std::string_view bytes, std::span<UniqueFd> descriptors = {});
Result<Reply> DecodeReply(std::string_view bytes, std::span<UniqueFd> descriptors = {});

}  // namespace atl::wire
