// The log of a program that runs in the background: a file, and the pipe that leads to it (one for
// both streams). The program has the pipe alone, so it cannot cut, rewind or read what it has said:
// `echo x >/dev/stderr` opens its own stderr with O_TRUNC, which would empty a file. A program that
// writes faster than execd reads waits, as for any full pipe. One whose log finds no room on the
// disk does not: what is lost is counted, and a line in the log says how much it was.
//
// Thread rule: the loop's.
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
  // The last so many bytes of a nameless log stay readable.
  static constexpr int64_t kKeep = 64 << 20;

  // A nameless file in TMPDIR or /tmp, else in memory; limited by the sandbox's own disk. Offsets
  // are absolute: the beginning of a very long log is given back to the disk. `write_end` is for
  // the program; close it after the spawn.
  static Result<std::unique_ptr<Spool>> Open(EventLoop* loop, const char* tmpdir,
                                             UniqueFd* write_end);
  // A file of the caller's, opened for reading and appending. All of it stays.
  static Result<std::unique_ptr<Spool>> To(EventLoop* loop, UniqueFd file, UniqueFd* write_end);
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;
  // Processes that the program left behind then write to nobody, and do not die of it.
  ~Spool();

  // Takes what is in the pipe now, so that the file holds what was written before this call.
  void Drain() { pipe_->Drain(); }
  // Drops what the file has beyond `size`.
  void CutTo(int64_t size);
  int64_t Size() const;
  // The first offset that is still there.
  int64_t Start() const { return start_; }
  // A descriptor of its own for reading.
  Result<UniqueFd> Reopen() const;

 private:
  explicit Spool(UniqueFd file) : file_(std::move(file)) {}
  void Append(std::string_view bytes);
  void GiveBack();

  UniqueFd file_;
  int64_t keep_ = 0;  // 0: all
  std::unique_ptr<OutputPipe> pipe_;
  int64_t start_ = 0;
  uint64_t lost_ = 0;  // bytes since the last that the file has taken
};

}  // namespace atl::execd
