// Sends the entrypoint's output to the daemon as it arrives, in the frames of
// runtime/wire/output.h. Never blocks, and stores one frame besides the contents of the
// TimedOutput. If the daemon is too slow, the TimedOutput overwrites the oldest output, and a frame
// reports how much was lost.
//
// Thread rule: the event loop's thread.
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
  // `on_change` is called from the loop when the daemon has read something or has disconnected.
  OutputFeed(EventLoop* loop, const TimedOutput* output, std::function<void()> on_change)
      : loop_(*loop), output_(*output), on_change_(std::move(on_change)) {}
  OutputFeed(const OutputFeed&) = delete;
  OutputFeed& operator=(const OutputFeed&) = delete;

  // Sends `first` and then the output from `offset` on to this socket. Replaces an earlier socket.
  void Connect(UniqueFd socket, uint64_t offset, std::string first = {});
  bool connected() const { return static_cast<bool>(socket_); }
  // Sends as much as the socket accepts. Call after each append to the output.
  void Send();
  // Bytes of output that are available and that the socket has not accepted.
  uint64_t unsent() const;
  // True if the socket has accepted everything.
  bool idle() const { return frame_.empty() && sent_ >= output_.end(); }
  // MonotonicMicros() when the socket last accepted something.
  int64_t progress_us() const { return progress_us_; }

 private:
  void OnEvents(uint32_t events);
  void SendNow();
  // Returns false if there is nothing to send.
  bool NextFrame();
  void Block(bool blocked);
  void Disconnect();

  EventLoop& loop_;
  const TimedOutput& output_;
  std::function<void()> on_change_;
  UniqueFd socket_;
  EventLoop::Id watch_ = 0;
  std::string frame_;       // the frame in flight
  size_t frame_taken_ = 0;  // bytes of frame_ that the socket has accepted
  uint64_t sent_ = 0;       // offset after the output in frame_
  int64_t progress_us_ = 0;
  bool blocked_ = false;  // the socket's buffer is full
};

}  // namespace atl::execd
