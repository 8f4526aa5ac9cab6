// The line to the daemon by which sessions are made and ended (runtime/wire/session.h). The daemon
// opens it, when a client's request comes that may need it, and again after it was restarted.
//
// Thread rule: the loop's.
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

  // In place of an earlier one. `first` is sent before all else.
  void Connect(UniqueFd socket, const std::string& first);
  // One after the other. kUnavailable: no daemon has come for it in a few seconds, or it has gone
  // before it has answered.
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
  std::deque<Asked> waiting_;  // the first is under way if `sent_`
  bool sent_ = false;
  uint64_t numbers_ = 0;
};

}  // namespace atl::execd
