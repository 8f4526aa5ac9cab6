#include "bench/api_phases.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <charconv>
#include <map>
#include <mutex>
#include <thread>

#include "bench/lean_client.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

constexpr int kRestMs = 30;
constexpr int kFillers = 4;
// Of what a stream has in the kernel and in the daemon before it stands still.
constexpr int kFloodMs = 1500;

Status Timed(LeanClient& client, const std::string& path, Samples* samples) {
  const int64_t start = NowMicros();
  ATOLL_TRY(client.Call("GET", path));
  samples->AddSince(start);
  return {};
}

// utime and stime of proc(5), fields 14 and 15.
Result<double> ProcessorSeconds(pid_t pid) {
  ATOLL_ASSIGN(const std::string stat,
               sys::ReadFileAt(AT_FDCWD, "/proc/" + std::to_string(pid) + "/stat", 4096));
  size_t at = stat.rfind(')');
  for (int field = 2; field < 14; ++field) at = stat.find(' ', at + 1);
  long ticks = 0;
  for (int i = 0; i < 2; ++i) {
    long part = 0;
    std::from_chars(stat.data() + at + 1, stat.data() + stat.size(), part);
    ticks += part;
    at = stat.find(' ', at + 1);
  }
  return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

Result<RouteTimes> MeasureRoutes(SandboxApi& api, LeanClient& client, const std::string& any,
                                 int count) {
  RouteTimes times;
  for (int i = 0; i < count; ++i) {
    Rest(kRestMs);
    const int64_t start = NowMicros();
    ATOLL_ASSIGN(const Sandbox sandbox, api.Create(kApiImage));
    times.create.AddSince(start);
    Rest(kRestMs);
    ATOLL_TRY(api.Delete(sandbox));
  }
  for (int i = 0; i < count * 4; ++i) {
    ATOLL_TRY(Timed(client, "/v1/sandboxes/" + any, &times.get));
    ATOLL_TRY(Timed(client, "/v1/sandboxes", &times.list));
  }
  return times;
}

Result<Rate> MeasureRate(const OwnDaemon& daemon, const std::string& key, const std::string& path,
                         int connections, int milliseconds) {
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" +
                              "OPEN-SANDBOX-API-KEY: " + key + "\r\n\r\n";
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return FailSys("epoll_create1");
  std::vector<UniqueFd> sockets;
  for (int i = 0; i < connections; ++i) {
    ATOLL_ASSIGN(UniqueFd socket, ConnectLoopback(daemon.port()));
    epoll_event event{.events = EPOLLIN, .data = {.fd = socket.get()}};
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
      return FailSys("epoll_ctl");
    }
    sockets.push_back(std::move(socket));
  }
  ATOLL_ASSIGN(const double before, ProcessorSeconds(daemon.pid()));
  const int64_t start = NowMicros();
  for (const UniqueFd& socket : sockets) ATOLL_TRY(sys::WriteAll(socket.get(), request));
  int64_t answers = 0;
  while (NowMicros() < start + int64_t{milliseconds} * 1000) {
    epoll_event events[64];
    const int ready = ::epoll_wait(epoll.get(), events, 64, 1000);
    for (int i = 0; i < ready; ++i) {
      // Small enough to come in one piece; a status line that is another one ends the run.
      char answer[8192];
      const ssize_t size = ::read(events[i].data.fd, answer, sizeof answer);
      if (size < 12 || std::string_view(answer, 12) != "HTTP/1.1 200") {
        return Fail(Code::kInternal, "GET " + path + ": not answered with 200");
      }
      ++answers;
      ATOLL_TRY(sys::WriteAll(events[i].data.fd, request));
    }
  }
  const double seconds = static_cast<double>(NowMicros() - start) / 1e6;
  ATOLL_ASSIGN(const double after, ProcessorSeconds(daemon.pid()));
  const auto count = static_cast<double>(answers);
  return Rate{count / seconds, after > before ? count / (after - before) : 0};
}

Result<std::vector<Sandbox>> Fill(const OwnDaemon& daemon, int total) {
  std::mutex mutex;
  std::vector<Sandbox> sandboxes;
  Status result;
  std::vector<std::thread> threads;
  for (int i = 0; i < kFillers; ++i) {
    threads.emplace_back([&, share = total / kFillers] {
      auto api = daemon.Connect();
      for (int made = 0; made < share; ++made) {
        auto sandbox = api ? api->Create(kApiImage) : Result<Sandbox>(Fail(api.error()));
        const std::lock_guard lock(mutex);
        if (!sandbox) {
          result = Fail(std::move(sandbox).error());
          return;
        }
        sandboxes.push_back(std::move(*sandbox));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!result) return Fail(std::move(result).error());
  return sandboxes;
}

Result<Samples> MeasureBesideStuckStreams(const OwnDaemon& daemon, LeanClient& client,
                                          const Sandbox& flooding, const std::string& any,
                                          int streams, int count) {
  std::vector<LeanClient> stuck;
  for (int i = 0; i < streams; ++i) {
    ATOLL_ASSIGN(LeanClient stream, LeanClient::Connect(daemon.port(), flooding.command_headers));
    ATOLL_TRY(stream.Send("POST", flooding.command_path, "", R"({"command":"yes"})"));
    stuck.push_back(std::move(stream));
  }
  Rest(kFloodMs);
  Samples samples;
  for (int i = 0; i < count; ++i) ATOLL_TRY(Timed(client, "/v1/sandboxes/" + any, &samples));
  return samples;
}

}  // namespace atl::bench
