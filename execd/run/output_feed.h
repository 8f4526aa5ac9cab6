// Sends the entrypoint's output to the daemon as it comes, as the frames of runtime/wire/output.h.
// Never blocks and holds one frame beside what the TimedOutput holds: what the daemon does not take
// in time is overwritten there, and a frame says how much that was.
//
// Thread rule: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "execd/run/timed_output.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

class OutputFeed {
 public:
  // `on_change` is called from the loop when a daemon has taken something or is gone.
  OutputFeed(EventLoop* loop, const TimedOutput* output, std::function<void()> on_change)
      : loop_(*loop), output_(*output), on_change_(std::move(on_change)) {}
  OutputFeed(const OutputFeed&) = delete;
  OutputFeed& operator=(const OutputFeed&) = delete;

  // From now on to this socket, and no other: `first`, then the output from `offset` on.
  void Connect(UniqueFd socket, uint64_t offset, std::string first = {});
  bool connected() const { return static_cast<bool>(socket_); }
  // Sends what fits. After each append to the output.
  void Send();
  // Bytes of output that are there and that the socket has not taken.
  uint64_t unsent() const;
  // Everything has been taken.
  bool idle() const { return frame_.empty() && sent_ >= output_.end(); }
  // MonotonicMicros() of when the socket last took something.
  int64_t progress_us() const { return progress_us_; }

 private:
  void OnEvents(uint32_t events);
  void SendNow();
  // False: there is nothing to send.
  bool NextFrame();
  void Block(bool blocked);
  void Disconnect();

  EventLoop& loop_;
  const TimedOutput& output_;
  std::function<void()> on_change_;
  UniqueFd socket_;
  EventLoop::Id watch_ = 0;
  std::string frame_;       // the one that is being sent
  size_t frame_taken_ = 0;  // by the socket
  uint64_t sent_ = 0;       // of the output, frame_ included
  int64_t progress_us_ = 0;
  bool blocked_ = false;  // the socket is full
};

}  // namespace atl::execd
