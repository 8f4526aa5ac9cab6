#include "runtime/base/acceptor.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "runtime/base/descriptors.h"
#include "runtime/base/log.h"

namespace atl {
namespace {

constexpr int64_t kLookAgainUs = 100'000;

// Returns true for errors of a connection that is already broken (accept(2), "Error handling").
bool IsOfOneConnection(int error) {
  return error == ECONNABORTED || error == EINTR || error == EPROTO || error == ENETDOWN ||
         error == EHOSTUNREACH || error == ENETUNREACH;
}

// Accepts one connection into `*out`. Returns 0, or the errno.
int AcceptOne(int listener, bool may_take_reserve, Acceptor::Connection* out) {
  auto* const peer = reinterpret_cast<sockaddr*>(&out->peer);
  out->socket.reset(::accept4(listener, peer, &out->peer_size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!out->socket && errno == EMFILE && may_take_reserve) {
    out->peer_size = sizeof out->peer;
    out->socket = AcceptReserved(listener, peer, &out->peer_size);
  }
  if (!out->socket) return errno;
  if (may_take_reserve || !IsSpare(out->socket.get())) return 0;
  const linger reset{.l_onoff = 1, .l_linger = 0};
  (void)::setsockopt(out->socket.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  out->socket.reset();
  return EMFILE;
}

// Returns true if a connection would get a descriptor that it may keep. Tested without accepting,
// so that connections stay in the queue.
bool HasRoom(int listener) {
  const UniqueFd tried(::fcntl(listener, F_DUPFD_CLOEXEC, 0));
  return tried && !IsSpare(tried.get());
}

Result<EventLoop::Id> Watch(EventLoop& loop, int fd, EventLoop::FdCallback callback) {
  return loop.Watch(fd, EPOLLIN, std::move(callback));
}

Result<Loop::Id> Watch(Loop& loop, int fd, Loop::FdCallback callback) {
  const Loop::Id id = loop.Watch(fd, EPOLLIN, std::move(callback));
  if (id == 0) return Fail(Code::kInternal, "a listening socket cannot be watched");
  return id;
}

template <typename AnyLoop>
class AcceptorOn final : public Acceptor {
 public:
  AcceptorOn(AnyLoop& loop, int listener, Config config, OnConnection on_connection)
      : loop_(loop),
        listener_(listener),
        config_(std::move(config)),
        on_connection_(std::move(on_connection)) {}
  AcceptorOn(const AcceptorOn&) = delete;
  AcceptorOn& operator=(const AcceptorOn&) = delete;
  ~AcceptorOn() override {
    if (gone_ != nullptr) *gone_ = true;
    if (watch_ != 0) loop_.Unwatch(watch_);
    loop_.Cancel(look_again_);
  }

  Status Start() {
    ATOLL_ASSIGN(watch_, Watch(loop_, listener_, [this](uint32_t) { OnReadable(); }));
    return {};
  }

  void SetOpen(bool open) override {
    open_ = open;
    Listen();
  }

 private:
  bool listening() const { return open_ && look_again_ == 0; }
  void Listen() { loop_.Modify(watch_, listening() ? EPOLLIN : 0U); }

  void OnReadable() {
    bool gone = false;
    gone_ = &gone;
    for (int i = 0; i < config_.at_once && listening(); ++i) {
      Connection connection;
      const int error = AcceptOne(listener_, config_.may_take_reserve, &connection);
      if (error == EAGAIN) break;
      if (IsOfOneConnection(error)) continue;
      if (error != 0) {
        Pause(error);
        break;
      }
      logged_ = false;
      on_connection_(connection);
      if (gone) return;
    }
    gone_ = nullptr;
  }

  void Pause(int error) {
    if (!std::exchange(logged_, true)) {
      LogLine(LogLevel::kWarning, "connections wait until a descriptor or memory is free")
          .Add("listener", config_.name)
          .Add(SysError("accept4", error));
    }
    look_again_ = loop_.After(kLookAgainUs, [this] {
      look_again_ = 0;
      if (!config_.may_take_reserve && !HasRoom(listener_)) return Pause(EMFILE);
      Listen();
    });
    Listen();
  }

  AnyLoop& loop_;
  const int listener_;
  const Config config_;
  const OnConnection on_connection_;
  uint64_t watch_ = 0;
  uint64_t look_again_ = 0;  // nothing is accepted before this timer
  bool open_ = true;
  bool logged_ = false;   // the log says that connections wait
  bool* gone_ = nullptr;  // set by the destructor; points into a running OnReadable
};

template <typename AnyLoop>
Result<std::unique_ptr<Acceptor>> StartOn(AnyLoop& loop, int listener, Acceptor::Config config,
                                          Acceptor::OnConnection on_connection) {
  auto acceptor = std::make_unique<AcceptorOn<AnyLoop>>(loop, listener, std::move(config),
                                                        std::move(on_connection));
  ATOLL_TRY(acceptor->Start());
  return std::unique_ptr<Acceptor>(std::move(acceptor));
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::Start(EventLoop& loop, int listener, Config config,
                                                  OnConnection on_connection) {
  return StartOn(loop, listener, std::move(config), std::move(on_connection));
}

Result<std::unique_ptr<Acceptor>> Acceptor::Start(Loop& loop, int listener, Config config,
                                                  OnConnection on_connection) {
  return StartOn(loop, listener, std::move(config), std::move(on_connection));
}

}  // namespace atl
