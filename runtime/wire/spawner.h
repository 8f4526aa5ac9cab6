// The daemon and the spawner, over one SOCK_SEQPACKET connection to <run_dir>/spawner.sock: one
// message is one packet, descriptors travel with the packet that names them.
//
//   daemon ── Request{number, message} ──► spawner    in any number, at any time
//   daemon ◄── Reply{number, answer} ───── spawner    one for each request, when it is carried out
//                                                     and not always in order; several Greetings
//   daemon ◄── Reply{0, Exited} ────────── spawner    a sandbox's first process has ended
//
// Neither side drops a packet because the other one is slow: what does not fit into the socket is
// kept and sent later. A request whose asker has hung up is not carried out, except Destroy, which
// its records repeat anyway.
//
// One daemon at a time: a new connection replaces the old one. The spawner believes nothing in
// here: each field is checked against its own configuration.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/wire/reply.h"
#include "runtime/wire/request.h"

namespace atl::wire {

// net.core.wmem_default bounds a packet; far below it.
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

// `descriptors` came with the packet; a message takes its own out. Another number of them than it
// names is an error like any other byte too many or too few.
Result<Request> DecodeRequest(std::string_view bytes, std::span<UniqueFd> descriptors = {});
Result<Reply> DecodeReply(std::string_view bytes, std::span<UniqueFd> descriptors = {});

}  // namespace atl::wire
