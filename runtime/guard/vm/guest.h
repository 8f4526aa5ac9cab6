// The conversation with the guest's init (wire/vm.h). The guest may say anything at any time: what
// does not belong there ends the conversation.
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/vm.h"

namespace atl::guard {

class Guest {
 public:
  // Called from the loop. They may destroy the guest.
  struct Events {
    std::function<void()> ready;  // once
    std::function<void(int exit_code)> ended;
    std::function<void(const std::string& why)> failed;
    std::function<void(const wire::vm::Synced&)> synced;
  };

  // `loop` is borrowed.
  Guest(EventLoop& loop, Events events) : loop_(loop), events_(std::move(events)) {}
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;
  ~Guest() { loop_.Unwatch(watch_); }

  // Returns the end of a new connection for the guest's init. kAlreadyExists: it had one.
  Result<UniqueFd> Connect();

  // kUnavailable: the init has not connected, has left, or does not read.
  Status Say(const wire::vm::ToGuest& message);

  // Takes what the guest has said so far, before the loop does.
  void Read();

 private:
  void Take(const wire::vm::FromGuest& message);
  void Leave();

  EventLoop& loop_;
  const Events events_;
  UniqueFd socket_;
  EventLoop::Id watch_ = 0;
  wire::Frames frames_{wire::vm::kMaxFrame};
  bool connected_ = false;
  bool ready_ = false;
};

}  // namespace atl::guard
