// The splice proxy between clients and servers on loopback. Each server has a nominal address,
// which the proxy sees and judges. Only connect(2) goes to the real one.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netpolicy/splice/splice_proxy.h"
#include "runtime/base/sys.h"
#include "tests/unit/netpolicy/test_loop.h"
#include "tests/unit/netpolicy/tls_bytes.h"

namespace atl::testing {

// Returns the nominal address of the n-th server.
inline netpolicy::IpAddress Nominal(uint8_t n) {
  netpolicy::IpAddress address;
  address.bytes = {198, 51, 100, n};
  return address;
}

inline netpolicy::IpAddress Nominal6(uint8_t n) {
  netpolicy::IpAddress address;
  address.ipv6 = true;
  address.bytes = {0x20, 0x01, 0x0d, 0xb8};
  address.bytes[15] = n;
  return address;
}

struct Denial {
  std::string source, original, name, reason;
};

class FakeGate final : public netpolicy::ProxyGate {
 public:
  explicit FakeGate(TestLoop& loop) : loop_(loop) {}

  bool Allows(std::string_view source, std::string_view name, uint16_t port) override {
    last_source = source;
    last_port = port;
    return allowed.contains(std::string(name));
  }
  bool AllowsUnnamed(std::string_view) override { return unnamed; }
  bool AllowsAddress(std::string_view, const netpolicy::Endpoint& to) override {
    return !guarded.contains(to.ToString());
  }
  bool Reaches(std::string_view, const netpolicy::Endpoint&) override { return reaches; }
  void Denied(std::string_view source, const netpolicy::Endpoint& original, std::string_view name,
              const char* reason) override {
    denials.push_back({std::string(source), original.ToString(), std::string(name), reason});
  }
  Id Resolve(std::string_view, std::string_view name, uint16_t, OnResolved done) override {
    resolved.emplace_back(name);
    if (at_once) {
      done(addresses[std::string(name)]);
      return ++last_id_;
    }
    const Id id = ++last_id_;
    pending_[id] = std::move(done);
    if (!silent) {
      loop_.Post([this, id, answer = addresses[std::string(name)]] {
        auto call = pending_.extract(id);
        if (!call.empty()) call.mapped()(answer);
      });
    }
    return id;
  }
  void CancelResolve(Id id) override { pending_.erase(id); }
  size_t pending() const { return pending_.size(); }

  std::set<std::string> allowed;
  bool unnamed = false;
  bool reaches = true;
  std::set<std::string> guarded;
  bool at_once = false;  // Resolve answers from within the call
  bool silent = false;   // Resolve never answers
  std::map<std::string, std::vector<netpolicy::IpAddress>> addresses;
  std::vector<Denial> denials;
  std::vector<std::string> resolved;
  std::string last_source;
  uint16_t last_port = 0;

 private:
  TestLoop& loop_;
  Id last_id_ = 0;
  std::map<Id, OnResolved> pending_;
};

// The test's end of a TCP connection.
class Peer {
 public:
  Peer() = default;
  explicit Peer(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  void Send(const std::string& bytes) {
    EXPECT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT),
              static_cast<ssize_t>(bytes.size()));
  }
  void End() { EXPECT_EQ(::shutdown(fd_.get(), SHUT_WR), 0); }
  void Reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    EXPECT_EQ(::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    fd_.reset();
  }
  void Close() { fd_.reset(); }

  // Returns true if the other end has reset the connection, even if bytes are left to read.
  bool Broken() const {
    pollfd poll{fd_.get(), 0, 0};
    return ::poll(&poll, 1, 0) == 1 && (poll.revents & POLLERR) != 0;
  }

  // Reads the bytes that have arrived.
  void Read() {
    char buffer[65536];
    while (!ended && !reset) {
      const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN) return;
      if (n < 0) reset = true;
      if (n == 0) ended = true;
      if (n > 0) got.append(buffer, static_cast<size_t>(n));
    }
  }

  std::string got;
  bool ended = false;
  bool reset = false;

 private:
  UniqueFd fd_;
};

inline netpolicy::Endpoint LocalOf(int fd) {
  netpolicy::Endpoint endpoint;
  EXPECT_EQ(::getsockname(fd, endpoint.get(), &endpoint.size), 0);
  return endpoint;
}

inline UniqueFd BoundStream(const std::string& address) {
  const netpolicy::Endpoint endpoint = *netpolicy::ParseEndpoint(address, 0);
  UniqueFd fd(::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(fd.get(), endpoint.get(), endpoint.size), 0) << address;
  return fd;
}

class Listener {
 public:
  explicit Listener(const std::string& address = "127.0.0.1") : fd_(BoundStream(address)) {
    EXPECT_EQ(::listen(fd_.get(), 128), 0);
  }
  netpolicy::Endpoint endpoint() const { return LocalOf(fd_.get()); }
  // Accepts a connection. Returns an invalid Peer if no client connects in time.
  Peer Accept() {
    pollfd poll{fd_.get(), POLLIN, 0};
    if (::poll(&poll, 1, 0) != 1) return Peer();
    return Peer(UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  }

 private:
  UniqueFd fd_;
};

// Listens with a full queue, so that a connect to it gets no answer.
class BlackHole {
 public:
  BlackHole() : fd_(BoundStream("127.0.0.1")), filler_(BoundStream("127.0.0.1")) {
    EXPECT_EQ(::listen(fd_.get(), 0), 0);
    endpoint_ = LocalOf(fd_.get());
    EXPECT_EQ(::connect(filler_.get(), endpoint_.get(), endpoint_.size), 0);
  }
  const netpolicy::Endpoint& endpoint() const { return endpoint_; }

 private:
  UniqueFd fd_, filler_;
  netpolicy::Endpoint endpoint_;
};

class SpliceTest : public ::testing::Test {
 protected:
  void Open(netpolicy::SpliceProxy::Limits limits = {},
            std::vector<std::string> listen = {"127.0.0.1"}) {
    netpolicy::SpliceProxy::Config config;
    config.listen = std::move(listen);
    config.limits = limits;
    config.original_destination = [this](int) { return original; };
    config.connect = [this](int socket, const netpolicy::Endpoint& to) {
      dialled.push_back(to.ToString());
      const auto target = servers.find(to.ToString());
      // Unknown addresses get no answer, like an address behind a firewall.
      if (target == servers.end()) {
        return ::connect(socket, hole.endpoint().get(), hole.endpoint().size);
      }
      return ::connect(socket, target->second.get(), target->second.size);
    };
    auto opened = netpolicy::SpliceProxy::Open(std::move(config));
    ASSERT_TRUE(opened.has_value()) << opened.error().message();
    proxy = std::move(*opened);
    ASSERT_TRUE(proxy->Start(loop, gate).has_value());
  }
  // Allows `name` and lets it lead to `listener`, whose nominal address is the n-th.
  void Serve(const std::string& name, uint8_t n, const Listener& listener) {
    gate.allowed.insert(name);
    gate.addresses[name] = {Nominal(n)};
    for (const char* port : {":80", ":443"}) {
      servers["198.51.100." + std::to_string(n) + port] = listener.endpoint();
    }
  }
  void SetPort(uint16_t port) { original = *netpolicy::ParseEndpoint("198.51.100.200", port); }

  Peer Client(const std::string& from = "127.0.0.1") {
    UniqueFd fd = BoundStream(from);
    const netpolicy::Endpoint& to = proxy->endpoints()[0];
    EXPECT_EQ(::connect(fd.get(), to.get(), to.size), 0);
    return Peer(std::move(fd));
  }
  template <typename F>
  bool Until(F condition) {
    return loop.RunUntil(condition);
  }
  Peer AcceptAt(Listener& listener) {
    Peer peer;
    EXPECT_TRUE(Until([&] { return (peer = listener.Accept()).valid(); }));
    return peer;
  }
  void ExpectGets(Peer& peer, const std::string& bytes) {
    Until([&] {
      peer.Read();
      return peer.got.size() >= bytes.size() || peer.ended || peer.reset;
    });
    EXPECT_EQ(peer.got, bytes);
    peer.got.clear();
  }
  void ExpectEnd(Peer& peer) {
    EXPECT_TRUE(Until([&] {
      peer.Read();
      return peer.ended || peer.reset;
    }));
    EXPECT_FALSE(peer.reset);
  }
  void ExpectReset(Peer& peer) {
    EXPECT_TRUE(Until([&] {
      peer.Read();
      return peer.ended || peer.reset;
    }));
    EXPECT_TRUE(peer.reset);
  }
  // Expects a refusal as a TLS client sees it: a fatal alert, then the end.
  void ExpectAlert(Peer& peer, int description) {
    ExpectEnd(peer);
    EXPECT_EQ(peer.got, (std::string{21, 3, 3, 0, 2, 2, static_cast<char>(description)}));
  }
  void ExpectStatus(Peer& peer, const std::string& status) {
    ExpectEnd(peer);
    EXPECT_TRUE(peer.got.starts_with("HTTP/1.1 " + status + "\r\n")) << peer.got;
    const size_t body = peer.got.find("\r\n\r\n");
    ASSERT_NE(body, std::string::npos);
    EXPECT_NE(peer.got.find("Content-Length: " + std::to_string(peer.got.size() - body - 4) + "\r"),
              std::string::npos);
  }
  std::string LastReason() const { return gate.denials.empty() ? "" : gate.denials.back().reason; }
  static size_t OpenDescriptors() {
    const auto fds = sys::Open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
    return sys::ListDir(fds->get())->size();
  }

  TestLoop loop;
  FakeGate gate{loop};
  std::optional<netpolicy::Endpoint> original = *netpolicy::ParseEndpoint("198.51.100.200", 443);
  std::map<std::string, netpolicy::Endpoint> servers;
  std::vector<std::string> dialled;
  std::unique_ptr<netpolicy::SpliceProxy> proxy;
  BlackHole hole;
};

}  // namespace atl::testing
