// The reading end of a child's stdout or stderr.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

// Reads a pipe as data arrives. Abandoned, it goes on reading into nothing until the last writer is
// gone: processes that a finished command left behind must not die of SIGPIPE.
class OutputPipe {
 public:
  using Sink = std::function<void(std::string_view bytes)>;

  // `write_end` is for the child; close it after the spawn.
  static Result<std::unique_ptr<OutputPipe>> Open(EventLoop* loop, UniqueFd* write_end, Sink sink);
  // The same of a FIFO, which others can open by this name. Keep `write_end`: without a writer the
  // pipe is over, and whoever opens it waits. kNotFound: there is no FIFO of this name.
  static Result<std::unique_ptr<OutputPipe>> OpenNamed(EventLoop* loop, const char* name,
                                                       UniqueFd* write_end, Sink sink);
  // The same for the reading end of a pipe that somebody else has made; it must not block.
  static Result<std::unique_ptr<OutputPipe>> Adopt(EventLoop* loop, UniqueFd read_end, Sink sink);
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;
  ~OutputPipe();

  // While paused nothing is read: the writer blocks when the pipe (64 KiB) is full.
  void Pause();
  void Resume();
  // Hands over what is in the pipe now, and no more, however fast somebody writes.
  void Drain();
  // How much that would be.
  size_t Waiting() const;
  // Whether `path`, links followed, leads to this pipe.
  bool IsAt(const std::string& path) const;
  // From now on for nobody. Takes care of itself.
  static void Abandon(std::unique_ptr<OutputPipe> pipe);

 private:
  OutputPipe(EventLoop* loop, UniqueFd fd, Sink sink)
      : loop_(*loop), fd_(std::move(fd)), sink_(std::move(sink)) {}
  void OnReadable();
  void Close();

  EventLoop& loop_;
  UniqueFd fd_;
  Sink sink_;
  EventLoop::Id watch_ = 0;
  bool paused_ = false;
  std::unique_ptr<OutputPipe> self_;  // set while abandoned
};

}  // namespace atl::execd
