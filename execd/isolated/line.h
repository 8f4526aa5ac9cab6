// The connection to whoever creates and ends isolated sessions (runtime/wire/session.h). The daemon
// opens it when a client's request may need it, and again after a restart of the daemon. In a
// virtual machine it leads to the machine's process 1, from the start.
//
// Thread rule: the event loop's thread.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/frame.h"
#include "runtime/wire/session.h"

namespace atl::execd {

class SessionLine {
 public:
  using Done = std::function<void(Status)>;

  explicit SessionLine(EventLoop* loop) : loop_(*loop) {}
  SessionLine(const SessionLine&) = delete;
  SessionLine& operator=(const SessionLine&) = delete;

  // Replaces an earlier connection. `first` is sent before everything else.
  void Connect(UniqueFd socket, const std::string& first);
  // Queues a request; one request is in flight at a time. kUnavailable: no daemon has connected
  // within a few seconds, or the connection was lost before the answer.
  void Ask(wire::SessionRequest request, Done done);

 private:
  struct Asked {
    uint64_t number = 0;
    wire::SessionRequest request;
    Done done;
  };
  void SendNext();
  void OnReadable();
  void Finish(Status status);
  void Disconnect();

  EventLoop& loop_;
  UniqueFd socket_;
  EventLoop::Id watch_ = 0;
  wire::Frames frames_{wire::kMaxSessionReply};
  std::deque<Asked> waiting_;  // the first is in flight if `sent_`
  bool sent_ = false;
  uint64_t numbers_ = 0;
};

}  // namespace atl::execd
