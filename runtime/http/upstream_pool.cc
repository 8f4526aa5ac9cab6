#include "runtime/http/upstream_pool.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/descriptors.h"
#include "runtime/base/unique_fd.h"
#include "runtime/base/unix_address.h"

namespace atl::http {
namespace {

constexpr size_t kMaxIdlePerPath = 2;
constexpr size_t kMaxIdle = 64;
// Shorter than any server's own timeout, so that a connection is rarely used just as the peer
// closes it. Long enough for a client that runs one command after another.
constexpr int64_t kIdleTimeUs = 3'000'000;
constexpr int64_t kFirstPauseUs = 1000;
constexpr int64_t kMaxConnectWaitUs = 2'000'000;

Result<UniqueFd> ConnectNow(const std::string& path) {
  ATOLL_ASSIGN(const sockaddr_un address, UnixAddress(path));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return FailSys("socket");
  if (IsSpare(fd.get())) return Fail(NoDescriptors("a stream into a sandbox", fd.get()));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("connect " + path);
  }
  return fd;
}

// Returns true if an idle connection can still carry a request. Unexpected bytes make it unusable,
// because they would be taken for the next response.
bool IsQuiet(int fd) {
  char byte;
  return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
}

}  // namespace

std::shared_ptr<Stream> UpstreamPool::Take(const std::string& path) {
  // Newest first, because the peer is least likely to close it.
  for (size_t i = idle_.size(); i-- > 0;) {
    if (idle_[i].path != path) continue;
    std::shared_ptr<Stream> stream = std::move(idle_[i].stream);
    idle_.erase(idle_.begin() + static_cast<ptrdiff_t>(i));
    if (IsQuiet(stream->fd())) return stream;
  }
  return nullptr;
}

void UpstreamPool::Put(const std::string& path, std::shared_ptr<Stream> stream) {
  size_t same = 0;
  for (const Idle& idle : idle_) same += idle.path == path ? 1 : 0;
  if (same >= kMaxIdlePerPath) return;
  if (idle_.size() >= kMaxIdle) idle_.pop_front();
  idle_.push_back({path, std::move(stream), MonotonicMicros() + kIdleTimeUs});
  ArmSweep();
}

void UpstreamPool::ArmSweep() {
  if (sweep_timer_ != 0 || idle_.empty()) return;
  sweep_timer_ = loop_.After(idle_.front().expires_us - MonotonicMicros(), [this] {
    sweep_timer_ = 0;
    const int64_t now_us = MonotonicMicros();
    while (!idle_.empty() && idle_.front().expires_us <= now_us) idle_.pop_front();
    ArmSweep();
  });
}

void UpstreamPool::Connect(const std::string& path, Connected done) {
  ConnectAgain(path, std::move(done), 0, kFirstPauseUs);
}

void UpstreamPool::ConnectAgain(const std::string& path, Connected done, int64_t waited_us,
                                int64_t pause_us) {
  Result<UniqueFd> fd = ConnectNow(path);
  if (fd) return done(Stream::Create(loop_, std::move(*fd)));
  // EAGAIN: the listener's queue is full. The kernel has no event for room in it, so this polls,
  // with growing pauses.
  if (fd.error().error_number() != EAGAIN || waited_us >= kMaxConnectWaitUs) {
    return done(Fail(std::move(fd).error()));
  }
  loop_.After(pause_us, [this, path, done = std::move(done), waited_us, pause_us] {
    ConnectAgain(path, done, waited_us + pause_us, pause_us * 2);
  });
}

}  // namespace atl::http
