// The log of a background program: a file, and one pipe for both streams that leads to it. The
// program gets only the pipe, so it cannot truncate, rewind or read the log. `echo x >/dev/stderr`
// opens stderr with O_TRUNC, which would empty a file. A program that writes faster than execd
// reads waits, as for any full pipe. If the disk is full, the program does not wait: execd counts
// the lost bytes, and a line in the log reports them.
//
// Thread rule: the event loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "execd/run/output.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

class Spool {
 public:
  // Size of the end of a nameless log that stays readable.
  static constexpr int64_t kKeep = 64 << 20;

  // Opens a nameless file in TMPDIR or /tmp, else in memory; the sandbox's disk limits its size.
  // Offsets are absolute: the beginning of a very long log is returned to the disk. `write_end` is
  // for the program; close it after the spawn.
  static Result<std::unique_ptr<Spool>> Open(EventLoop* loop, const char* tmpdir,
                                             UniqueFd* write_end);
  // Uses a file of the caller, open for reading and appending. All of the log is kept.
  static Result<std::unique_ptr<Spool>> To(EventLoop* loop, UniqueFd file, UniqueFd* write_end);
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;
  // The later output of processes that the program has left behind is discarded; SIGPIPE does not
  // kill them.
  ~Spool();

  // Writes the present contents of the pipe to the file, so that the file holds all output before
  // this call.
  void Drain() { pipe_->Drain(); }
  // Cuts the file to `size` bytes.
  void CutTo(int64_t size);
  int64_t Size() const;
  // Returns the first offset that is still stored.
  int64_t Start() const { return start_; }
  // Returns a new descriptor for reading, with its own offset.
  Result<UniqueFd> Reopen() const;

 private:
  explicit Spool(UniqueFd file) : file_(std::move(file)) {}
  void Append(std::string_view bytes);
  void GiveBack();

  UniqueFd file_;
  int64_t keep_ = 0;  // 0: keep everything
  std::unique_ptr<OutputPipe> pipe_;
  int64_t start_ = 0;
  uint64_t lost_ = 0;  // bytes lost since the last successful write
};

}  // namespace atl::execd
