// A DNS forwarder on loopback between a client and an upstream. The test plays both.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "netpolicy/dns/dns_forwarder.h"
#include "tests/unit/netpolicy/dns_bytes.h"
#include "tests/unit/netpolicy/test_loop.h"

namespace atl::testing {

using netpolicy::DnsForwarder;
using netpolicy::DnsGate;
using netpolicy::Endpoint;
using netpolicy::ParseEndpoint;

inline constexpr std::array<uint8_t, 4> kAddress{192, 0, 2, 80};

// Returns a loopback address that no other socket of this machine uses. A UDP port that is free on
// 127.0.0.1 need not be free for TCP.
inline std::string OwnLoopback() {
  static int count = 0;
  const int pid = ::getpid();
  return "127." + std::to_string(64 + ++count % 64) + "." + std::to_string(pid >> 8 & 0xff) + "." +
         std::to_string(pid & 0xff);
}

inline Endpoint Local(const UniqueFd& fd) {
  Endpoint endpoint;
  EXPECT_EQ(::getsockname(fd.get(), endpoint.get(), &endpoint.size), 0);
  return endpoint;
}

inline UniqueFd Bound(int type, const Endpoint& endpoint) {
  UniqueFd fd(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  EXPECT_EQ(::bind(fd.get(), endpoint.get(), endpoint.size), 0);
  return fd;
}

inline std::string Read(int fd) {
  char buffer[70000];
  const ssize_t n = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : "";
}

// A name server on loopback whose answers the test decides. UDP and TCP on the same port.
struct Upstream {
  Upstream() {
    udp = Bound(SOCK_DGRAM, *ParseEndpoint(OwnLoopback(), 0));
    tcp = Bound(SOCK_STREAM, Local(udp));
    EXPECT_EQ(::listen(tcp.get(), 8), 0);
  }
  std::string name() const { return Local(udp).ToString(); }
  void Serve(TestLoop& loop) {
    loop.WatchReadable(udp.get(), [this] {
      char buffer[2048];
      Endpoint from;
      const ssize_t n = ::recvfrom(udp.get(), buffer, sizeof buffer, 0, from.get(), &from.size);
      ASSERT_GT(n, 0);
      queries.emplace_back(buffer, static_cast<size_t>(n));
      sources.push_back(from.ToString());
      for (const std::string& answer : answers(queries.back())) {
        ::sendto(udp.get(), answer.data(), answer.size(), 0, from.get(), from.size);
      }
    });
    loop.WatchReadable(tcp.get(), [this, &loop] {
      connection.reset(::accept4(tcp.get(), nullptr, nullptr, SOCK_CLOEXEC));
      ASSERT_TRUE(connection.valid());
      if (connection_watch != 0) loop.Unwatch(connection_watch);
      connection_watch = loop.WatchReadable(connection.get(), [this, &loop] {
        const int fd = connection.get();
        const std::string query = Read(fd);
        if (query.empty()) return loop.Unwatch(std::exchange(connection_watch, 0));
        const std::string answer = DnsFramed(tcp_answer(query.substr(2)));
        // Two pieces, so that the client reads a partial message.
        ::send(fd, answer.data(), 1, 0);
        ::send(fd, answer.data() + 1, answer.size() - 1, 0);
      });
    });
  }

  UniqueFd udp, tcp, connection;
  Loop::Id connection_watch = 0;
  std::vector<std::string> queries, sources;
  std::function<std::vector<std::string>(const std::string&)> answers =
      [](const std::string& query) -> std::vector<std::string> {
    return {DnsAnswerTo(query, kAddress)};
  };
  std::function<std::string(const std::string&)> tcp_answer = [](const std::string& query) {
    return DnsAnswerTo(query, kAddress);
  };
};

// Receives questions and answers none.
struct SilentUpstream : Upstream {
  SilentUpstream() {
    answers = [](const std::string&) -> std::vector<std::string> { return {}; };
  }
};

class ManualClock : public Clock {
 public:
  int64_t UnixMillis() const override { return now_us / 1000; }
  int64_t BootMicros() const override { return now_us; }
  void Advance(int64_t seconds) { now_us += seconds * 1'000'000; }

  int64_t now_us = 1'000'000'000;
};

// Answers as the test says, and records each call.
class FakeDnsGate : public DnsGate {
 public:
  struct Learned {
    std::string source, name;
    std::vector<std::string> aliases;
    std::vector<std::string> addresses;
    uint32_t ttl;
    bool operator==(const Learned&) const = default;
  };
  Judgement Judge(std::string_view source, std::string_view name, uint16_t type) override {
    judged.emplace_back(std::string(name), type);
    const auto own = views.find({std::string(source), std::string(name)});
    return own != views.end() ? own->second : otherwise;
  }
  bool Learn(std::string_view source, std::string_view name,
             const std::vector<std::string>& aliases,
             const std::vector<netpolicy::IpAddress>& addresses, uint32_t ttl) override {
    Learned entry{std::string(source), std::string(name), aliases, {}, ttl};
    for (const auto& address : addresses) {
      entry.addresses.emplace_back(address.span().begin(), address.span().end());
    }
    learned.push_back(std::move(entry));
    if (on_learn) on_learn();
    return may_learn;
  }

  Judgement otherwise;
  std::map<std::pair<std::string, std::string>, Judgement> views;  // (source, name)
  bool may_learn = true;
  std::function<void()> on_learn;
  std::vector<std::pair<std::string, uint16_t>> judged;
  std::vector<Learned> learned;
};

class DnsForwarderTest : public ::testing::Test {
 protected:
  void Open(std::vector<std::string> upstreams, DnsForwarder::Limits limits = {},
            DnsGate* gate = nullptr) {
    DnsForwarder::Config config;
    config.listen = {OwnLoopback()};
    config.port = 0;
    config.upstreams = std::move(upstreams);
    config.resolv_conf = "/nonexistent";
    config.limits = limits;
    config.clock = &clock;
    auto opened = DnsForwarder::Open(std::move(config));
    ASSERT_TRUE(opened.has_value()) << opened.error().message();
    forwarder = std::move(*opened);
    ASSERT_TRUE(forwarder->Start(loop, gate).has_value());
  }
  // Opens a client socket. `source` is a loopback address to use instead of 127.0.0.1.
  UniqueFd Client(int type, const std::string& source = "") {
    UniqueFd fd(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
    if (!source.empty()) {
      const Endpoint from = *ParseEndpoint(source, 0);
      EXPECT_EQ(::bind(fd.get(), from.get(), from.size), 0);
    }
    const Endpoint& to = forwarder->endpoints()[0];
    EXPECT_EQ(::connect(fd.get(), to.get(), to.size), 0);
    return fd;
  }
  bool Readable(const UniqueFd& fd) {
    pollfd poll{fd.get(), POLLIN, 0};
    return ::poll(&poll, 1, 0) == 1;
  }
  void Send(const UniqueFd& fd, const std::string& bytes) {
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string Answer(const UniqueFd& fd) {
    EXPECT_TRUE(loop.RunUntil([&] { return Readable(fd); }));
    return Readable(fd) ? Read(fd.get()) : "";
  }
  std::string Ask(const std::string& query, const std::string& source = "") {
    const UniqueFd client = Client(SOCK_DGRAM, source);
    Send(client, query);
    return Answer(client);
  }
  std::string AskTcp(const std::string& query) {
    const UniqueFd client = Client(SOCK_STREAM);
    Send(client, DnsFramed(query));
    return Answer(client);
  }

  ManualClock clock;
  TestLoop loop;
  std::unique_ptr<DnsForwarder> forwarder;
};

}  // namespace atl::testing
