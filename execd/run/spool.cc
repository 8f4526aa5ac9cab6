#include "execd/run/spool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "execd/core.h"
#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

// O_TMPFILE where the file system knows it (overlayfs since 6.3), else a name that is removed at
// once.
Result<UniqueFd> NamelessFile(const std::string& directory) {
  const int flags = O_RDWR | O_APPEND;
  auto fd = sys::Open(directory, flags | O_TMPFILE, 0600);
  if (fd) return fd;
  const int error = fd.error().error_number();
  if (error != EOPNOTSUPP && error != EISDIR && error != EINVAL) return fd;
  const std::string name = directory + "/.execd-" + NewUuid(false);
  ATOLL_ASSIGN(UniqueFd file, sys::Open(name, flags | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  ::unlink(name.c_str());
  return file;
}

}  // namespace

Result<std::unique_ptr<Spool>> Spool::Open(EventLoop* loop, const char* tmpdir) {
  auto fd = NamelessFile(tmpdir && tmpdir[0] == '/' ? tmpdir : "/tmp");
  if (!fd) fd = NamelessFile("/");
  if (!fd) {
    // A read-only image without /tmp.
    UniqueFd memory(::memfd_create("execd-output", MFD_CLOEXEC));
    if (!memory) return FailSys("memfd_create");
    if (::fcntl(memory.get(), F_SETFL, O_APPEND) != 0) return FailSys("fcntl O_APPEND");
    fd = std::move(memory);
  }
  std::unique_ptr<Spool> spool(new Spool(loop, std::move(*fd)));
  spool->Watch();
  return spool;
}

Spool::~Spool() {
  loop_.Cancel(timer_);
}

int64_t Spool::Size() const {
  struct stat info;
  return ::fstat(fd_.get(), &info) == 0 ? info.st_size : 0;
}

Result<UniqueFd> Spool::Reopen() const {
  UniqueFd fd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 3));
  if (!fd) return FailSys("fcntl F_DUPFD_CLOEXEC");
  return fd;
}

void Spool::Look() {
  const int64_t size = Size();
  if (size < start_) start_ = 0;  // the command has truncated its own output
  GiveBack(size - start_ < kKeep + kKeep / 4 ? start_ : (size - kKeep) & ~int64_t{4095});
}

// In pieces with rests between them: 48 MiB at once kept a processor in the kernel for 4.5 ms, and
// whoever had run there before, the daemon among them, waited for it. A piece grows with what is
// left, so that no writer is faster than this.
void Spool::GiveBack(int64_t end) {
  constexpr int64_t kPiece = 4 << 20, kRestMicros = 100;
  const int64_t left = end - start_;
  const int64_t piece = std::min(left, std::max(kPiece, (left / 8) & ~int64_t{4095}));
  // Not every file system can; then the log just stays.
  if (piece <= 0 ||
      ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, start_, piece) != 0) {
    return Watch();
  }
  start_ += piece;
  timer_ = loop_.After(kRestMicros, [this, end] { GiveBack(end); });
}

// Processes that the command left behind may go on writing after it, so this never stops. It looks
// again when the file will have grown by kStep, if it grows as it did: what is trimmed in time is
// never written to the disk. At a fixed interval of 250 ms a command that floods filled the
// sandbox's memory with unwritten pages, and the kernel wrote them at the disk's full speed. More
// often is no better: each call waits for the writer's lock, on a processor that others need.
void Spool::Watch() {
  constexpr int64_t kStep = kKeep / 2;
  constexpr int64_t kShortest = 5'000, kLongest = 60'000'000;
  const int64_t size = Size();
  const int64_t grown = std::max<int64_t>(size - seen_, 1);
  const int64_t step_us = std::max(period_us_, kShortest) * kStep / grown;
  period_us_ = std::clamp(std::min(step_us, period_us_ * 2), kShortest, kLongest);
  seen_ = size;
  timer_ = loop_.After(period_us_, [this] { Look(); });
}

}  // namespace atl::execd
