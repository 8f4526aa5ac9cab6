#include "runtime/http/upstream_pool.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/descriptors.h"
#include "runtime/base/unique_fd.h"

namespace atl::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kMaxIdlePerPath = 2;
constexpr size_t kMaxIdle = 64;
// Shorter than any server's own patience, so that a connection is seldom taken just as the peer
// gives it up; long enough for a client that runs one command after another.
constexpr seconds kIdleTime{3};
constexpr milliseconds kFirstPause{1};
constexpr seconds kMaxConnectWait{2};

Result<UniqueFd> ConnectNow(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Fail(Code::kInternal, "connect " + path + ": path too long for a Unix socket");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return FailSys("socket");
  if (IsSpare(fd.get())) return Fail(NoDescriptors("a stream into a sandbox"));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("connect " + path);
  }
  return fd;
}

// Whether an idle connection can still carry a request. Bytes that nobody asked for make it
// unusable: they would be taken for the next response.
bool IsQuiet(int fd) {
  char byte;
  return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
}

}  // namespace

std::optional<Stream> UpstreamPool::Take(const std::string& path) {
  // Newest first: it is the least likely to be given up by the peer.
  for (size_t i = idle_.size(); i-- > 0;) {
    if (idle_[i].path != path) continue;
    Stream stream = std::move(idle_[i].stream);
    idle_.erase(idle_.begin() + static_cast<ptrdiff_t>(i));
    if (IsQuiet(stream.native_handle())) return stream;
  }
  return std::nullopt;
}

void UpstreamPool::Put(const std::string& path, Stream stream) {
  size_t same = 0;
  for (const Idle& idle : idle_) same += idle.path == path ? 1 : 0;
  if (same >= kMaxIdlePerPath) return;
  if (idle_.size() >= kMaxIdle) idle_.pop_front();
  idle_.push_back({path, std::move(stream), SteadyClock::now() + kIdleTime});
  ArmSweep();
}

void UpstreamPool::ArmSweep() {
  if (sweep_armed_ || idle_.empty()) return;
  sweep_armed_ = true;
  sweep_timer_.expires_at(idle_.front().expires);
  sweep_timer_.async_wait([this](const ErrorCode& error) {
    if (error) return;  // the pool is being destroyed
    sweep_armed_ = false;
    const auto now = SteadyClock::now();
    while (!idle_.empty() && idle_.front().expires <= now) idle_.pop_front();
    ArmSweep();
  });
}

void UpstreamPool::Connect(const std::string& path, std::function<void(Result<Stream>)> done) {
  ConnectAgain(path, std::move(done), SteadyClock::duration::zero(), kFirstPause);
}

void UpstreamPool::ConnectAgain(const std::string& path, std::function<void(Result<Stream>)> done,
                                SteadyClock::duration waited, SteadyClock::duration pause) {
  Result<UniqueFd> fd = ConnectNow(path);
  if (fd) {
    Stream stream(io_);
    ErrorCode error;
    stream.assign(asio::generic::stream_protocol(AF_UNIX, 0), fd->get(), error);
    if (error) return done(Fail(Code::kInternal, "watch socket: " + error.message()));
    (void)fd->release();
    return done(std::move(stream));
  }
  // EAGAIN: the listener's queue is full. The kernel has no event for room in it, so this polls,
  // ever more slowly.
  if (fd.error().error_number() != EAGAIN || waited >= kMaxConnectWait) {
    return done(Fail(std::move(fd).error()));
  }
  auto timer = std::make_shared<Timer>(io_, pause);
  timer->async_wait([this, timer, path, done = std::move(done), waited, pause](const ErrorCode&) {
    ConnectAgain(path, done, waited + pause, pause * 2);
  });
}

}  // namespace atl::http
