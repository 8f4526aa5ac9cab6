#include "runtime/objects/relay.h"

#include <netdb.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <list>
#include <memory>
#include <utility>

#include "runtime/base/acceptor.h"
#include "runtime/base/clock.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/unique_fd.h"

namespace atl::objects {
namespace {

constexpr size_t kMaxConnections = 64;
constexpr size_t kBuffer = 64 << 10;
// How long addresses are cached. They are also looked up again if none of them answers.
constexpr int64_t kKnownUs = 60 * 1000 * 1000;

// One direction of a connection: a buffer of bytes that were read and are to be written.
class Flow {
 public:
  bool wants_read() const { return !ended_ && begin_ == end_; }
  bool wants_write() const { return begin_ < end_; }
  bool over() const { return ended_ && begin_ == end_; }

  // Returns false if the connection has failed.
  bool Read(int from, int to) {
    const ssize_t n = TEMP_FAILURE_RETRY(::read(from, bytes_.data(), bytes_.size()));
    if (n < 0) return errno == EAGAIN;
    begin_ = 0;
    end_ = static_cast<size_t>(n);
    ended_ = n == 0;
    if (ended_) ::shutdown(to, SHUT_WR);
    return ended_ || Write(to);
  }
  bool Write(int to) {
    const ssize_t n =
        TEMP_FAILURE_RETRY(::send(to, bytes_.data() + begin_, end_ - begin_, MSG_NOSIGNAL));
    if (n < 0) return errno == EAGAIN;
    begin_ += static_cast<size_t>(n);
    return true;
  }

 private:
  std::array<char, kBuffer> bytes_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool ended_ = false;
};

// The result of a look-up. A connection that is being made keeps it alive.
using Addresses = std::shared_ptr<const addrinfo>;

class Endpoint {
 public:
  Endpoint(std::string host, std::string port) : host_(std::move(host)), port_(std::move(port)) {}

  // Blocks during the look-up, because nothing could be served without it. Null: there are no
  // addresses.
  Addresses Look() {
    if (SystemClock().BootMicros() < known_until_us_) return addresses_;
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host_.c_str(), port_.c_str(), &wanted, &found) != 0) return nullptr;
    addresses_ = Addresses(found, ::freeaddrinfo);
    known_until_us_ = SystemClock().BootMicros() + kKnownUs;
    return addresses_;
  }
  void Forget() { known_until_us_ = 0; }

 private:
  const std::string host_, port_;
  Addresses addresses_;
  int64_t known_until_us_ = 0;
};

// Watches a socket for the events that are wanted now. A socket without wanted events is not
// watched, because its hang-up would be reported again and again.
class Watched {
 public:
  UniqueFd fd;

  Status Want(EventLoop& loop, uint32_t events, const EventLoop::FdCallback& callback) {
    if (events == 0) {
      Forget(loop);
    } else if (watch_ != 0) {
      loop.Modify(watch_, events);
    } else {
      ATOLL_ASSIGN(watch_, loop.Watch(fd.get(), events, callback));
    }
    return {};
  }
  void Forget(EventLoop& loop) { loop.Unwatch(std::exchange(watch_, 0)); }

 private:
  EventLoop::Id watch_ = 0;
};

struct Connection {
  Watched client, store;
  Addresses addresses;             // set while it is being connected
  const addrinfo* next = nullptr;  // the next one to try
  Flow up, down;

  bool connecting() const { return addresses != nullptr; }
  // Done when the program has closed, whatever the store still sends: s3fs closes connections that
  // it has given up. Otherwise a store that is silent for ever would use up the connections.
  bool over() const { return up.over(); }

  // Connects to the next address. Returns false if none is left.
  bool TryNext(EventLoop& loop) {
    store.Forget(loop);
    for (; next != nullptr; next = next->ai_next) {
      UniqueFd& fd = store.fd;
      fd.reset(::socket(next->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (fd &&
          (::connect(fd.get(), next->ai_addr, next->ai_addrlen) == 0 || errno == EINPROGRESS)) {
        next = next->ai_next;
        return true;
      }
    }
    return false;
  }
};

uint32_t Wanted(const Flow& reads, const Flow& writes) {
  return (reads.wants_read() ? EPOLLIN : 0U) | (writes.wants_write() ? EPOLLOUT : 0U);
}

class Relaying {
 public:
  Relaying(EventLoop& loop, Endpoint endpoint) : loop_(loop), endpoint_(std::move(endpoint)) {}

  Status Listen(int listener) {
    ATOLL_ASSIGN(acceptor_,
                 Acceptor::Start(loop_, listener, {.name = "relay"}, [this](auto& connection) {
                   Begin(std::move(connection.socket));
                 }));
    return {};
  }

 private:
  using Place = std::list<Connection>::iterator;

  void Begin(UniqueFd client) {
    const Place made = connections_.emplace(connections_.end());
    made->client.fd = std::move(client);
    made->addresses = endpoint_.Look();
    made->next = made->addresses.get();
    if (connections_.size() == kMaxConnections) acceptor_->SetOpen(false);
    // If it fails, the client sees a closed connection.
    GoOn(made, TryNext(*made));
  }

  bool TryNext(Connection& each) {
    if (each.TryNext(loop_)) return true;
    endpoint_.Forget();
    return false;
  }

  // Waits for the next event, or ends the connection.
  void GoOn(Place each, bool goes_on) {
    if (goes_on && !each->over() && Watch(each)) return;
    each->client.Forget(loop_);
    each->store.Forget(loop_);
    connections_.erase(each);
    acceptor_->SetOpen(true);
  }

  bool Watch(Place each) {
    const auto on_client = [this, each](uint32_t events) { GoOn(each, Serve(*each, events, 0)); };
    const auto on_store = [this, each](uint32_t events) { GoOn(each, Serve(*each, 0, events)); };
    const bool connecting = each->connecting();
    const uint32_t of_client = connecting ? 0 : Wanted(each->up, each->down);
    const uint32_t of_store = connecting ? EPOLLOUT : Wanted(each->down, each->up);
    return each->client.Want(loop_, of_client, on_client).has_value() &&
           each->store.Want(loop_, of_store, on_store).has_value();
  }

  bool Serve(Connection& each, uint32_t client, uint32_t store) {
    if (each.connecting()) return Connected(each);
    constexpr uint32_t kReadable = EPOLLIN | EPOLLHUP | EPOLLERR;
    constexpr uint32_t kWritable = EPOLLOUT | EPOLLHUP | EPOLLERR;
    const int from = each.client.fd.get(), to = each.store.fd.get();
    // Writes come before reads: what was read is passed on at once, so a flow either reads or
    // writes.
    if ((client & kWritable) != 0 && each.down.wants_write() && !each.down.Write(from))
      return false;
    if ((store & kWritable) != 0 && each.up.wants_write() && !each.up.Write(to)) return false;
    if ((client & kReadable) != 0 && each.up.wants_read() && !each.up.Read(from, to)) return false;
    return (store & kReadable) == 0 || !each.down.wants_read() || each.down.Read(to, from);
  }

  bool Connected(Connection& each) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(each.store.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return TryNext(each);
    each.addresses.reset();
    return true;
  }

  EventLoop& loop_;
  Endpoint endpoint_;
  std::unique_ptr<Acceptor> acceptor_;
  std::list<Connection> connections_;
};

}  // namespace

Status Relay(int listener, const std::string& host, const std::string& port, pid_t server) {
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  if (::sigprocmask(SIG_BLOCK, &children, nullptr) != 0) return FailSys("sigprocmask");
  const UniqueFd signals(::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return FailSys("signalfd");
  ATOLL_ASSIGN(const std::unique_ptr<EventLoop> loop, EventLoop::Create());
  ATOLL_TRY(loop->Watch(signals.get(), EPOLLIN, [&](uint32_t) {
    signalfd_siginfo told;
    while (::read(signals.get(), &told, sizeof told) > 0) {
    }
  }));
  Relaying relaying(*loop, Endpoint(host, port));
  ATOLL_TRY(relaying.Listen(listener));
  for (;;) {
    // Process 1 is also told about orphans. The first wait comes before any signal, because a
    // SIGCHLD that came before it was blocked is lost.
    for (;;) {
      const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
      if (ended == server || (ended < 0 && errno == ECHILD)) return {};
      if (ended <= 0) break;
    }
    loop->Turn(-1);
  }
}

}  // namespace atl::objects
