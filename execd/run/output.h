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

// Reads a pipe as data arrives. An abandoned pipe reads and discards until the last writer has
// closed it, because SIGPIPE must not kill processes that a finished command left behind.
class OutputPipe {
 public:
  using Sink = std::function<void(std::string_view bytes)>;

  // Opens a pipe. `write_end` is for the child; close it after the spawn.
  static Result<std::unique_ptr<OutputPipe>> Open(EventLoop* loop, UniqueFd* write_end, Sink sink);
  // Opens a FIFO, which other programs can open by name. Keep `write_end` open: without a writer
  // the pipe reaches its end, and later opens block. kNotFound: there is no FIFO of this name.
  static Result<std::unique_ptr<OutputPipe>> OpenNamed(EventLoop* loop, const char* name,
                                                       UniqueFd* write_end, Sink sink);
  // Takes the reading end of an existing pipe, which must be non-blocking.
  static Result<std::unique_ptr<OutputPipe>> Adopt(EventLoop* loop, UniqueFd read_end, Sink sink);
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;
  ~OutputPipe();

  // Pauses reading: the writer blocks once the pipe (64 KiB) is full.
  void Pause();
  void Resume();
  // Delivers the present contents of the pipe, and no more, however fast the writer is.
  void Drain();
  // Returns the size of the pipe's present contents.
  size_t Waiting() const;
  // Returns true if `path`, with links followed, leads to this pipe.
  bool IsAt(const std::string& path) const;
  // Abandons a pipe. The object deletes itself at the end.
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
