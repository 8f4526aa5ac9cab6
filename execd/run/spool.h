// Where a background command's output goes: a nameless file in the sandbox that the command writes
// by itself (one file for both streams), so that output costs execd nothing, survives no matter who
// reads it, and is limited by the sandbox's own disk. Offsets are absolute; of a very long log the
// beginning is given back to the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

class Spool {
 public:
  // The last so many bytes stay readable.
  static constexpr int64_t kKeep = 64 << 20;

  // In TMPDIR or /tmp, else in memory.
  static Result<std::unique_ptr<Spool>> Open(EventLoop* loop, const char* tmpdir);
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;
  ~Spool();

  // For the child: opened for appending.
  int fd() const { return fd_.get(); }
  int64_t Size() const;
  // The first offset that is still there.
  int64_t Start() const { return start_; }
  // A descriptor of its own for reading.
  Result<UniqueFd> Reopen() const;

 private:
  Spool(EventLoop* loop, UniqueFd fd) : loop_(*loop), fd_(std::move(fd)) {}
  void Watch();
  void Look();
  void GiveBack(int64_t end);

  EventLoop& loop_;
  UniqueFd fd_;
  int64_t start_ = 0;
  int64_t seen_ = 0;  // the size at the last look
  int64_t period_us_ = 0;
  EventLoop::Id timer_ = 0;
};

}  // namespace atl::execd
