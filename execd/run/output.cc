#include "execd/run/output.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

// Reads are small, because short lines become events of twenty times their size, and execd must
// keep what it has read if the client does not accept it. Each turn does a few reads.
constexpr size_t kOutputRead = 8 << 10;
constexpr int kReadsARound = 4;
char g_output[kOutputRead];

}  // namespace

Result<std::unique_ptr<OutputPipe>> OutputPipe::Open(EventLoop* loop, UniqueFd* write_end,
                                                     Sink sink) {
  int fds[2];
  // Only execd's end is non-blocking: the flag belongs to the open file, and commands do not expect
  // it.
  if (::pipe2(fds, O_CLOEXEC) != 0) return FailSys("pipe2");
  UniqueFd read_end(fds[0]);
  write_end->reset(fds[1]);
  if (::fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0) return FailSys("fcntl O_NONBLOCK");
  return Adopt(loop, std::move(read_end), std::move(sink));
}

Result<std::unique_ptr<OutputPipe>> OutputPipe::OpenNamed(EventLoop* loop, const char* name,
                                                          UniqueFd* write_end, Sink sink) {
  open_how how{};
  how.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  UniqueFd read_end(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, name, &how, sizeof how)));
  struct stat info;
  if (!read_end || ::fstat(read_end.get(), &info) != 0 || !S_ISFIFO(info.st_mode)) {
    return Fail(Code::kNotFound, std::string(name) + ": is not a FIFO");
  }
  ATOLL_ASSIGN(*write_end, sys::Open(name, O_WRONLY));
  return Adopt(loop, std::move(read_end), std::move(sink));
}

Result<std::unique_ptr<OutputPipe>> OutputPipe::Adopt(EventLoop* loop, UniqueFd read_end,
                                                      Sink sink) {
  const int fd = read_end.get();
  std::unique_ptr<OutputPipe> pipe(new OutputPipe(loop, std::move(read_end), std::move(sink)));
  OutputPipe* raw = pipe.get();
  ATOLL_ASSIGN(pipe->watch_, loop->Watch(fd, EPOLLIN, [raw](uint32_t) { raw->OnReadable(); }));
  return pipe;
}

OutputPipe::~OutputPipe() {
  Close();
}

void OutputPipe::Close() {
  if (!fd_) return;
  loop_.Unwatch(watch_);
  fd_.reset();
}

void OutputPipe::OnReadable() {
  ssize_t n = 0;
  for (int i = 0; i < kReadsARound && fd_ && !paused_; ++i) {
    n = ::read(fd_.get(), g_output, kOutputRead);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) break;
    if (!self_) sink_({g_output, static_cast<size_t>(n)});
    if (static_cast<size_t>(n) < kOutputRead) return;
  }
  if (n <= 0 && fd_) {
    Close();
    if (self_) {
      // Destroyed after this turn, because the caller is one of its member functions.
      const std::shared_ptr<OutputPipe> last(std::move(self_));
      loop_.Post([last] {});
    }
  }
}

// Removes a paused pipe from epoll, which reports a hang-up regardless of the events asked for. A
// child that has closed its end would keep the loop spinning.
void OutputPipe::Pause() {
  if (paused_ || !fd_) return;
  paused_ = true;
  loop_.Unwatch(watch_);
  watch_ = 0;
}

void OutputPipe::Resume() {
  if (!paused_ || !fd_) return;
  paused_ = false;
  auto watch = loop_.Watch(fd_.get(), EPOLLIN, [this](uint32_t) { OnReadable(); });
  if (watch) {
    watch_ = *watch;
  } else {
    fd_.reset();
  }
}

bool OutputPipe::IsAt(const std::string& path) const {
  struct stat ours, other;
  return fd_ && ::fstat(fd_.get(), &ours) == 0 && ::stat(path.c_str(), &other) == 0 &&
         ours.st_dev == other.st_dev && ours.st_ino == other.st_ino;
}

size_t OutputPipe::Waiting() const {
  int left = 0;
  if (!fd_ || ::ioctl(fd_.get(), FIONREAD, &left) != 0 || left < 0) return 0;
  return static_cast<size_t>(left);
}

void OutputPipe::Drain() {
  size_t left = Waiting();
  while (left > 0 && fd_) {
    const ssize_t n = ::read(fd_.get(), g_output, std::min(kOutputRead, left));
    if (n <= 0) return;
    left -= static_cast<size_t>(n);
    sink_({g_output, static_cast<size_t>(n)});
  }
}

void OutputPipe::Abandon(std::unique_ptr<OutputPipe> pipe) {
  if (!pipe || !pipe->fd_) return;
  OutputPipe* raw = pipe.get();
  raw->self_ = std::move(pipe);
  raw->Resume();
  if (!raw->fd_) raw->self_.reset();
}

}  // namespace atl::execd
