// The init's end of the conversation with the guard (runtime/wire/vm.h). Blocking.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/vm.h"

namespace atl::guest {

class Channel {
 public:
  // Connects to the guard, which listens before it starts the machine.
  static Result<Channel> Dial();

  int socket() const { return socket_.get(); }
  Status Send(const wire::vm::FromGuest& message);
  // Blocks for the next message. kUnavailable: the guard has gone.
  Result<wire::vm::ToGuest> Receive();
  // Returns the next message that has arrived in whole, after one read; nothing if there is none.
  // Call when the socket is readable, until it returns nothing.
  Result<std::optional<wire::vm::ToGuest>> ReceiveArrived();
  // Waits until the guard has closed the connection and so has everything that was sent, `limit_ms`
  // at most.
  void AwaitClose(int limit_ms);

 private:
  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}
  // Reads what is there, after waiting for it.
  Status Fill();

  UniqueFd socket_;
  wire::Frames frames_{wire::vm::kMaxFrame};
};

}  // namespace atl::guest
