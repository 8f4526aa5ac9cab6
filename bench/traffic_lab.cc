#include "bench/traffic_lab.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "bench/clock.h"
#include "bench/netns.h"
#include "bench/relay.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

constexpr uint16_t kServerPort = 5001;

struct Order {
  TrafficLab::Direction direction = TrafficLab::Direction::kUp;
  uint64_t size = 0;
};

sockaddr_in ServerAddress() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kServerPort);
  ::inet_pton(AF_INET, kServerAddress, &address.sin_addr);
  return address;
}

Status Answer(int client) {
  Order order;
  if (TEMP_FAILURE_RETRY(::recv(client, &order, sizeof order, MSG_WAITALL)) != sizeof order) {
    return Fail(Code::kUnavailable, "a client that says nothing");
  }
  if (order.direction == TrafficLab::Direction::kDown) return SendBytes(client, order.size);
  ATOLL_TRY(TakeBytes(client, order.size));
  return sys::WriteAll(client, ".");
}

// Starts a process that serves one connection after the other and ends with this process.
Result<pid_t> StartServer() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = ServerAddress();
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), 16) != 0) {
    return FailSys("listen in the server's namespace");
  }
  const pid_t pid = ::fork();
  if (pid < 0) return FailSys("fork");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (true) {
    const UniqueFd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const Status answered = Answer(client.get());
    if (!answered) std::fprintf(stderr, "bench: %s\n", answered.error().message().c_str());
  }
}

}  // namespace

Result<std::unique_ptr<TrafficLab>> TrafficLab::Start() {
  std::unique_ptr<TrafficLab> lab(new TrafficLab());
  ATOLL_ASSIGN(const UniqueFd server, NewNetns());
  ATOLL_ASSIGN(const UniqueFd router, NewNetns());
  ATOLL_TRY(sys::WriteFileAt(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", "1"));
  ATOLL_ASSIGN(lab->plain_, NewNetns());
  ATOLL_TRY(RunAll({"ip link add eth0 type veth peer name in0 netns " + NetnsPath(router),
                    "ip addr add 192.0.2.2/24 dev eth0", "ip link set eth0 up"}));
  ATOLL_ASSIGN(lab->host_, NewNetns());
  ATOLL_TRY(EnterNetns(server));
  ATOLL_TRY(RunAll({"ip link add plain0 type veth peer name up0 netns " + NetnsPath(router),
                    "ip link add host0 type veth peer name up0 netns " + NetnsPath(lab->host_),
                    "ip addr add 203.0.113.2/32 dev lo", "ip addr add 198.51.100.2/24 dev plain0",
                    "ip addr add 192.0.0.2/24 dev host0", "ip link set plain0 up",
                    "ip link set host0 up", "ip route add 192.0.2.0/24 via 198.51.100.1"}));
  ATOLL_ASSIGN(lab->server_, StartServer());
  ATOLL_TRY(EnterNetns(router));
  ATOLL_TRY(RunAll({"ip addr add 192.0.2.1/24 dev in0", "ip link set in0 up",
                    "ip addr add 198.51.100.1/24 dev up0", "ip link set up0 up",
                    "ip route add default via 198.51.100.2"}));
  ATOLL_TRY(EnterNetns(lab->plain_));
  ATOLL_TRY(RunAll({"ip route add default via 192.0.2.1"}));
  ATOLL_TRY(EnterNetns(lab->host_));
  ATOLL_TRY(RunAll({"ip addr add 192.0.0.1/24 dev up0", "ip link set up0 up",
                    "ip route add default via 192.0.0.2"}));
  return lab;
}

TrafficLab::~TrafficLab() {
  if (server_ <= 0) return;
  ::kill(server_, SIGKILL);
  ::waitpid(server_, nullptr, 0);
}

Result<double> TrafficLab::Transfer(const UniqueFd& netns, Direction direction, uint64_t size) {
  ATOLL_TRY(EnterNetns(netns));
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ATOLL_TRY(EnterNetns(host_));
  const sockaddr_in address = ServerAddress();
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("connect to the server");
  }
  const Order order{direction, size};
  char bytes[sizeof order];
  std::memcpy(bytes, &order, sizeof order);
  ATOLL_TRY(sys::WriteAll(socket.get(), {bytes, sizeof bytes}));
  const int64_t start = NowMicros();
  if (direction == Direction::kUp) ATOLL_TRY(SendBytes(socket.get(), size));
  ATOLL_TRY(TakeBytes(socket.get(), direction == Direction::kUp ? 1 : size));
  return static_cast<double>(size) * 1e6 / static_cast<double>(MicrosSince(start));
}

Result<double> TrafficLab::FromPlain(Direction direction, uint64_t size) {
  return Transfer(plain_, direction, size);
}

Result<double> TrafficLab::FromProcess(pid_t pid, Direction direction, uint64_t size) {
  ATOLL_ASSIGN(const UniqueFd netns,
               sys::Open("/proc/" + std::to_string(pid) + "/ns/net", O_RDONLY));
  return Transfer(netns, direction, size);
}

}  // namespace atl::bench
