#include "bench/network_phases.h"

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
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/netns.h"
#include "bench/relay.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

constexpr int kRestMs = 30;
constexpr int kFillers = 4;
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

// A process that serves one connection after the other and ends with this one.
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

std::string PolicyJson(int rules, int variant) {
  std::string text = R"({"defaultAction":"deny","egress":[{"action":"allow","target":")" +
                     std::string(kServerAddress) + "\"}";
  for (int i = 1; i < rules; ++i) {
    const std::string target =
        i % 2 == 0 ? "host" + std::to_string(i) + ".example" + std::to_string(variant) + ".com"
                   : "198." + std::to_string(18 + variant) + "." + std::to_string(i / 256) + "." +
                         std::to_string(i % 256) + "/32";
    text += R"(,{"action":"allow","target":")" + target + "\"}";
  }
  return text + "]}";
}

Result<PolicyApi> FindPolicyApi(LeanClient& client, const std::string& sandbox) {
  ATOLL_ASSIGN(const std::string text,
               client.Call("GET", "/v1/sandboxes/" + sandbox + "/endpoints/18080"));
  const auto answer = nlohmann::json::parse(text, nullptr, false);
  const std::string endpoint = answer.is_object() ? answer.value("endpoint", "") : "";
  const size_t slash = endpoint.find('/');
  if (slash == std::string::npos || !answer.contains("headers")) {
    return Fail(Code::kInternal, "endpoint of a policy: " + text);
  }
  PolicyApi api{endpoint.substr(slash), ""};
  for (const auto& [name, value] : answer["headers"].items()) {
    api.headers += name + ": " + value.get<std::string>() + "\r\n";
  }
  return api;
}

Result<ApplyTimes> MeasureApply(LeanClient& client, const PolicyApi& policy,
                                const std::pair<std::string, std::string>& bodies, int count) {
  ApplyTimes times;
  for (int i = 0; i < count; ++i) {
    Rest(kRestMs);
    int64_t start = NowMicros();
    ATOLL_TRY(client.Call("GET", policy.path + "/healthz", "", policy.headers));
    times.round_trip.AddSince(start);
    Rest(kRestMs);
    start = NowMicros();
    ATOLL_TRY(client.Call("PUT", policy.path + "/policy", i % 2 == 0 ? bodies.first : bodies.second,
                          policy.headers));
    times.put.AddSince(start);
  }
  return times;
}

Result<CreateTimes> MeasureCreates(SandboxApi& api, int rules, int count) {
  CreateTimes times;
  const std::string policy = ",\"networkPolicy\":" + PolicyJson(rules);
  for (int i = 0; i < 2 * count; ++i) {
    const bool policed = i % 2 == 1;
    Rest(kRestMs);
    const int64_t start = NowMicros();
    ATOLL_ASSIGN(const Sandbox sandbox, api.Create(kNetworkImage, "{}", policed ? policy : ""));
    (policed ? times.policed : times.plain).AddSince(start);
    Rest(kRestMs);
    ATOLL_TRY(api.Delete(sandbox));
  }
  return times;
}

Status FillPoliced(const OwnDaemon& daemon, int total, int rules) {
  const std::string policy = ",\"networkPolicy\":" + PolicyJson(rules);
  std::vector<Status> results(kFillers);
  std::vector<std::thread> threads;
  for (int i = 0; i < kFillers; ++i) {
    const int share = total / kFillers + (i < total % kFillers ? 1 : 0);
    threads.emplace_back([&, i, share] {
      auto api = daemon.Connect();
      if (!api) results[static_cast<size_t>(i)] = Fail(api.error());
      for (int made = 0; api && made < share; ++made) {
        const auto sandbox = api->Create(kNetworkImage, "{}", policy);
        if (sandbox) continue;
        results[static_cast<size_t>(i)] = Fail(sandbox.error());
        return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& result : results) ATOLL_TRY(result);
  return {};
}

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
  return static_cast<double>(size) / (static_cast<double>(NowMicros() - start) / 1e6);
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
