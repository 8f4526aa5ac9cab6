#include "runtime/objects/relay.h"

#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <list>
#include <memory>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/unique_fd.h"

namespace atl::objects {
namespace {

constexpr size_t kMaxConnections = 64;
constexpr size_t kBuffer = 64 << 10;
// Addresses are looked up again after so long, and when none of them answers.
constexpr int64_t kKnownUs = 60 * 1000 * 1000;

// One direction: what was read and is to be written.
class Flow {
 public:
  bool wants_read() const { return !ended_ && begin_ == end_; }
  bool wants_write() const { return begin_ < end_; }
  bool over() const { return ended_ && begin_ == end_; }

  // False: the connection is of no use any more.
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

// What a name has been looked up as; whoever is being connected keeps it.
using Addresses = std::shared_ptr<const addrinfo>;

class Endpoint {
 public:
  Endpoint(std::string host, std::string port) : host_(std::move(host)), port_(std::move(port)) {}

  // Blocks while names are looked up: nobody could be served without. Null: there are none.
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

struct Connection {
  UniqueFd client, store;
  Addresses addresses;             // while it is being connected
  const addrinfo* next = nullptr;  // of them
  Flow up, down;

  bool connecting() const { return addresses != nullptr; }
  // Nobody listens to what the store still says: s3fs closes what it has given up. Of a store that
  // is silent for ever, connections would be used up otherwise.
  bool over() const { return up.over(); }

  // To the next address that lets itself be tried. False: there is none left.
  bool TryNext() {
    for (; next != nullptr; next = next->ai_next) {
      store.reset(::socket(next->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (store &&
          (::connect(store.get(), next->ai_addr, next->ai_addrlen) == 0 || errno == EINPROGRESS)) {
        next = next->ai_next;
        return true;
      }
    }
    return false;
  }
};

// -1: nothing is wanted of it, not even that it is broken.
pollfd Wanted(const UniqueFd& fd, const Flow& reads, const Flow& writes) {
  const int events = (reads.wants_read() ? POLLIN : 0) | (writes.wants_write() ? POLLOUT : 0);
  return {events == 0 ? -1 : fd.get(), static_cast<short>(events), 0};
}

class Loop {
 public:
  Loop(int listener, Endpoint endpoint) : listener_(listener), endpoint_(std::move(endpoint)) {}

  void Turn(int signals) {
    std::vector<pollfd> polled = {
        {signals, POLLIN, 0}, {connections_.size() < kMaxConnections ? listener_ : -1, POLLIN, 0}};
    for (const Connection& each : connections_) {
      if (each.connecting()) {
        polled.push_back({-1, 0, 0});
        polled.push_back({each.store.get(), POLLOUT, 0});
      } else {
        polled.push_back(Wanted(each.client, each.up, each.down));
        polled.push_back(Wanted(each.store, each.down, each.up));
      }
    }
    if (::poll(polled.data(), polled.size(), -1) < 0) return;
    size_t i = 2;
    for (auto each = connections_.begin(); each != connections_.end(); i += 2) {
      const bool goes_on = Serve(*each, polled[i].revents, polled[i + 1].revents);
      each = goes_on && !each->over() ? std::next(each) : connections_.erase(each);
    }
    if (polled[1].revents != 0) Accept();
  }

 private:
  void Accept() {
    UniqueFd client(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client) return;
    Connection& made = connections_.emplace_back();
    made.client = std::move(client);
    made.addresses = endpoint_.Look();
    made.next = made.addresses.get();
    if (!TryNext(made)) connections_.pop_back();  // the client hears that nobody is there
  }

  bool TryNext(Connection& each) {
    if (each.TryNext()) return true;
    endpoint_.Forget();
    return false;
  }

  bool Serve(Connection& each, short client, short store) {
    if (each.connecting()) return store == 0 || Connected(each);
    constexpr short kReadable = POLLIN | POLLHUP | POLLERR;
    constexpr short kWritable = POLLOUT | POLLHUP | POLLERR;
    const int from = each.client.get(), to = each.store.get();
    // In this order: what was read is passed on at once, so that a flow has one of both to do.
    if ((client & kWritable) != 0 && each.down.wants_write() && !each.down.Write(from))
      return false;
    if ((store & kWritable) != 0 && each.up.wants_write() && !each.up.Write(to)) return false;
    if ((client & kReadable) != 0 && each.up.wants_read() && !each.up.Read(from, to)) return false;
    return (store & kReadable) == 0 || !each.down.wants_read() || each.down.Read(to, from);
  }

  bool Connected(Connection& each) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(each.store.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return TryNext(each);
    each.addresses.reset();
    return true;
  }

  const int listener_;
  Endpoint endpoint_;
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
  Loop loop(listener, Endpoint(host, port));
  for (;;) {
    // As process 1 we are also told of those whose parents have ended. The first look is before any
    // signal: one that came before it was blocked is told by nobody.
    for (;;) {
      const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
      if (ended == server || (ended < 0 && errno == ECHILD)) return {};
      if (ended <= 0) break;
    }
    loop.Turn(signals.get());
    signalfd_siginfo told;
    while (::read(signals.get(), &told, sizeof told) > 0) {
    }
  }
}

}  // namespace atl::objects
