#include "bench/splice_lab.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "bench/clock.h"
#include "bench/netns.h"
#include "bench/relay.h"
#include "netpolicy/address/endpoint.h"
#include "netpolicy/splice/splice_proxy.h"
#include "runtime/base/sys.h"
#include "runtime/http/pooled_loop.h"
#include "runtime/http/server.h"

namespace atl::bench {
namespace {

using netpolicy::Endpoint;
using netpolicy::IpAddress;

constexpr char kServer[] = "203.0.113.2";
constexpr char kGateway[] = "10.77.0.1";
constexpr uint16_t kForwardedPort = 443, kSplicedPort = 8443;

// Returns a TLS 1.2 ClientHello with one cipher suite, for "bench.example", and the key exchange.
// The proxy reads no further, so the bytes after it need not be TLS.
std::string ClientHello() {
  const std::string name = "bench.example";
  const auto u16 = [](size_t value) {
    return std::string{static_cast<char>(value >> 8), static_cast<char>(value & 0xff)};
  };
  const auto sized = [&](const std::string& bytes) { return u16(bytes.size()) + bytes; };
  const std::string server_name = u16(0) + sized(sized('\0' + sized(name)));
  const std::string body = "\x03\x03" + std::string(32, 'r') + '\0' + sized("\x13\x01") +
                           std::string("\x01\x00", 2) + sized(server_name);
  const std::string message = std::string("\x01\x00", 2) + sized(body);
  const std::string key_exchange("\x10\x00\x00\x00", 4);
  return "\x16\x03\x01" + sized(message) + "\x16\x03\x03" + sized(key_exchange);
}

// The client's order after its hello: a direction and a number of bytes.
struct Order {
  Direction direction = Direction::kUp;
  uint64_t size = 0;
};

class OpenGate final : public netpolicy::ProxyGate {
 public:
  bool Allows(std::string_view, std::string_view, uint16_t) override { return true; }
  bool AllowsUnnamed(std::string_view) override { return false; }
  bool AllowsAddress(std::string_view, const Endpoint&) override { return false; }
  bool Reaches(std::string_view, const Endpoint&) override { return true; }
  void Denied(std::string_view, const Endpoint&, std::string_view, const char*) override {}
  Id Resolve(std::string_view, std::string_view, uint16_t, OnResolved done) override {
    IpAddress address;
    address.bytes = {203, 0, 113, 2};
    done({address});
    return 1;
  }
  void CancelResolve(Id) override {}
};

// Forks a child that runs `body` and dies with this process.
Result<pid_t> Child(const std::function<Status()>& body) {
  const pid_t pid = ::fork();
  if (pid < 0) return FailSys("fork");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  const Status status = body();
  if (!status) std::fprintf(stderr, "bench: %s\n", status.error().message().c_str());
  ::_exit(1);
}

Result<UniqueFd> ListenAt(uint16_t port) {
  ATOLL_ASSIGN(const Endpoint endpoint, netpolicy::ParseEndpoint(kServer, port));
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(fd.get(), endpoint.get(), endpoint.size) != 0 || ::listen(fd.get(), 16) != 0) {
    return FailSys("listen on " + endpoint.ToString());
  }
  return fd;
}

Status ReadWhole(int fd, void* to, size_t size) {
  for (size_t got = 0; got < size;) {
    const ssize_t n = ::read(fd, static_cast<char*>(to) + got, size - got);
    if (n <= 0)
      return n == 0 ? Fail(Code::kUnavailable, "connection ended early") : FailSys("read");
    got += static_cast<size_t>(n);
  }
  return {};
}

Status Answer(int client) {
  std::string hello(ClientHello().size(), '\0');
  Order order;
  ATOLL_TRY(ReadWhole(client, hello.data(), hello.size()));
  ATOLL_TRY(ReadWhole(client, &order, sizeof order));
  if (order.direction == Direction::kDown) return SendBytes(client, order.size);
  ATOLL_TRY(TakeBytes(client, order.size));
  return sys::WriteAll(client, ".");
}

// Serves each connection on a thread of its own, until the end of the process.
Status ServeAll(const UniqueFd& first, const UniqueFd& second) {
  const auto serve = [](int listener) {
    for (;;) {
      UniqueFd client(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
      std::thread([client = std::move(client)] {
        const Status answered = Answer(client.get());
        if (!answered) std::fprintf(stderr, "server: %s\n", answered.error().message().c_str());
      }).detach();
    }
  };
  std::thread(serve, second.get()).detach();
  serve(first.get());
  return {};
}

// Returns the seconds in which the CPUs were not idle.
Result<double> BusySeconds() {
  ATOLL_ASSIGN(const std::string stat, sys::ReadFileAt(AT_FDCWD, "/proc/stat", 1 << 20));
  double busy = 0;
  const char* at = stat.data() + std::strlen("cpu  ");
  const char* end = stat.data() + stat.find('\n');
  for (int field = 0; at < end; ++field, ++at) {
    uint64_t ticks = 0;
    at = std::from_chars(at, end, ticks).ptr;
    // user nice system idle iowait irq softirq steal
    if (field < 8 && field != 3 && field != 4) busy += static_cast<double>(ticks);
  }
  return busy / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

Result<std::unique_ptr<SpliceLab>> SpliceLab::Start() {
  std::unique_ptr<SpliceLab> lab(new SpliceLab());
  ATOLL_ASSIGN(const UniqueFd outside, NewNetns());
  ATOLL_ASSIGN(const UniqueFd router, NewNetns());
  ATOLL_ASSIGN(const UniqueFd sandbox, NewNetns());
  ATOLL_TRY(RunAll({"ip link add eth0 type veth peer name box0 netns " + NetnsPath(router),
                    "ip addr add 10.77.0.2/24 dev eth0", "ip link set eth0 up"}));
  ATOLL_TRY(EnterNetns(outside));
  ATOLL_TRY(
      RunAll({"ip link add ext0 type veth peer name up0 netns " + NetnsPath(router),
              std::string("ip addr add ") + kServer + "/24 dev ext0", "ip link set ext0 up"}));
  ATOLL_ASSIGN(const UniqueFd plain, ListenAt(kForwardedPort));
  ATOLL_ASSIGN(const UniqueFd spliced, ListenAt(kSplicedPort));
  ATOLL_ASSIGN(lab->server_, Child([&] { return ServeAll(plain, spliced); }));

  ATOLL_TRY(EnterNetns(router));
  ATOLL_TRY(RunAll({std::string("ip addr add ") + kGateway + "/24 dev box0", "ip link set box0 up",
                    "ip addr add 203.0.113.1/24 dev up0", "ip link set up0 up"}));
  ATOLL_TRY(sys::WriteFileAt(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", "1"));
  netpolicy::SpliceProxy::Config config;
  config.listen = {kGateway};
  ATOLL_ASSIGN(const auto proxy, netpolicy::SpliceProxy::Open(std::move(config)));
  // Both kinds of connections pass connection tracking and address translation.
  ATOLL_TRY(
      RunAll({"nft add table inet b",
              "nft add chain inet b pre { type nat hook prerouting priority -100 ; }",
              "nft add chain inet b post { type nat hook postrouting priority 100 ; }",
              "nft add rule inet b pre iifname box0 tcp dport " + std::to_string(kSplicedPort) +
                  " dnat ip to " + proxy->endpoints()[0].ToString(),
              "nft add rule inet b post oifname up0 masquerade"}));
  ATOLL_ASSIGN(lab->proxy_, Child([&]() -> Status {
                 OpenGate gate;
                 ATOLL_ASSIGN(const auto loop, http::PooledLoop::Create(1));
                 ATOLL_TRY(proxy->Start(*loop, gate));
                 loop->Run();
                 return {};
               }));
  ATOLL_TRY(EnterNetns(sandbox));
  ATOLL_TRY(RunAll({std::string("ip route add default via ") + kGateway}));
  return lab;
}

SpliceLab::~SpliceLab() {
  for (const pid_t pid : {server_, proxy_}) {
    if (pid <= 0) continue;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

Result<UniqueFd> SpliceLab::Connect(Path path) {
  const uint16_t port = path == Path::kSpliced ? kSplicedPort : kForwardedPort;
  ATOLL_ASSIGN(const Endpoint server, netpolicy::ParseEndpoint(kServer, port));
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), server.get(), server.size) != 0) {
    return FailSys("connect to " + server.ToString());
  }
  return fd;
}

Status SpliceLab::Carry(Path path, Direction direction, uint64_t size) {
  ATOLL_ASSIGN(const UniqueFd socket, Connect(path));
  const Order order{direction, size};
  ATOLL_TRY(sys::WriteAll(socket.get(), ClientHello()));
  ATOLL_TRY(sys::WriteAll(socket.get(), {reinterpret_cast<const char*>(&order), sizeof order}));
  if (direction == Direction::kUp) ATOLL_TRY(SendBytes(socket.get(), size));
  return TakeBytes(socket.get(), direction == Direction::kUp ? 1 : size);
}

Result<Transfer> SpliceLab::Measure(Path path, Direction direction, uint64_t size,
                                    size_t connections) {
  std::vector<Status> statuses(connections);
  ATOLL_ASSIGN(const double busy, BusySeconds());
  const int64_t start = NowMicros();
  {
    std::vector<std::thread> threads;
    for (Status& status : statuses) {
      threads.emplace_back([&] { status = Carry(path, direction, size); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const double seconds = static_cast<double>(MicrosSince(start)) / 1e6;
  ATOLL_ASSIGN(const double busy_after, BusySeconds());
  for (const Status& status : statuses) ATOLL_TRY(status);
  return Transfer{static_cast<double>(size * connections) / seconds, (busy_after - busy) / seconds};
}

Result<int64_t> SpliceLab::FirstByte(Path path) {
  const int64_t start = NowMicros();
  ATOLL_ASSIGN(const UniqueFd socket, Connect(path));
  const Order order{Direction::kDown, 1};
  ATOLL_TRY(sys::WriteAll(socket.get(), ClientHello()));
  ATOLL_TRY(sys::WriteAll(socket.get(), {reinterpret_cast<const char*>(&order), sizeof order}));
  ATOLL_TRY(TakeBytes(socket.get(), 1));
  return MicrosSince(start);
}

}  // namespace atl::bench
