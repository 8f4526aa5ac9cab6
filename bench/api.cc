// Measures the daemon's own routes, with few sandboxes and with many.
#include <sys/epoll.h>
#include <unistd.h>

#include <charconv>
#include <thread>

#include "bench/clock.h"
#include "bench/fill.h"
#include "bench/lab.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

constexpr int kMany = 1000;
constexpr int kCount = 50;
constexpr int kConnections = 32;
constexpr int kRateMs = 2000;
constexpr int kStreams = 50;
// Time for a stream to fill the buffers of the kernel and of the daemon, after which it stalls.
constexpr int kFloodMs = 1500;

struct ApiLab : Lab {
  Sandbox one, flooding;
  std::vector<LeanClient> stuck;
  std::string one_path() const { return "/v1/sandboxes/" + one.id; }
};
using LabPtr = std::shared_ptr<ApiLab>;

// Returns utime plus stime of proc(5), fields 14 and 15.
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

// Sends GET requests over keep-alive connections, with one request in flight on each.
Status Rate(const OwnDaemon& daemon, const std::string& path, const std::string& name, Take& take) {
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" +
                              "OPEN-SANDBOX-API-KEY: " + daemon.key() + "\r\n\r\n";
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return FailSys("epoll_create1");
  std::vector<UniqueFd> sockets;
  for (int i = 0; i < kConnections; ++i) {
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
  double answers = 0;
  while (MicrosSince(start) < int64_t{kRateMs} * 1000) {
    epoll_event events[64];
    const int ready = ::epoll_wait(epoll.get(), events, 64, 1000);
    if (ready == 0) return Fail(Code::kDeadlineExceeded, "GET " + path + ": no answer");
    for (int i = 0; i < ready; ++i) {
      // An answer is small enough to arrive in one piece. A status line other than the expected one
      // ends the turn.
      char answer[8192];
      const ssize_t size = ::read(events[i].data.fd, answer, sizeof answer);
      if (size < 12 || std::string_view(answer, 12) != "HTTP/1.1 200") {
        return Fail(Code::kInternal, "GET " + path + ": not answered with 200");
      }
      ++answers;
      ATOLL_TRY(sys::WriteAll(events[i].data.fd, request));
    }
  }
  const double seconds = static_cast<double>(MicrosSince(start)) / 1e6;
  ATOLL_ASSIGN(const double after, ProcessorSeconds(daemon.pid()));
  take.Add(name + ", a second", answers / seconds);
  take.Add(name + ", a second and core", after > before ? answers / (after - before) : 0);
  return {};
}

Phase RatePhase(const LabPtr& lab, const std::string& name, double bound,
                const std::function<std::string()>& path) {
  return {.series = {{name + ", a second and core",
                      "for a second of the daemon's processor time",
                      "1/s",
                      {{.at_least = bound}}},
                     {name + ", a second", "32 connections, the client beside it", "1/s", {}}},
          .samples = 3,
          .run = [=](Take& take) { return Rate(*lab->daemon, path(), name, take); }};
}

Phase GetPhase(const LabPtr& lab, Series series, int samples, const std::string& turns,
               const std::function<std::string()>& path) {
  const std::string name = series.name;
  return {.series = {std::move(series)},
          .samples = samples,
          .turns = turns,
          .run = [=](Take& take) -> Status {
            const int64_t start = NowMicros();
            ATOLL_TRY(lab->client->Call("GET", path()));
            take.AddMs(name, MicrosSince(start));
            return {};
          }};
}

Phase CreatePhase(const LabPtr& lab, Series series) {
  const std::string name = series.name;
  return {.series = {std::move(series)},
          .samples = kCount,
          .rest_ms = kRestMs,
          .run = [=](Take& take) -> Status {
            const int64_t start = NowMicros();
            ATOLL_ASSIGN(const Sandbox sandbox, lab->api->Create(kBusyboxImage));
            take.AddMs(name, MicrosSince(start));
            Rest(kRestMs);
            return lab->api->Delete(sandbox);
          }};
}

Status Flood(ApiLab& lab) {
  ATOLL_ASSIGN(lab.flooding, lab.Create(kBusyboxImage));
  for (int i = 0; i < kStreams; ++i) {
    ATOLL_ASSIGN(LeanClient stream,
                 LeanClient::Connect(lab.daemon->port(), lab.flooding.command_headers));
    ATOLL_TRY(stream.Send("POST", lab.flooding.command_path, "", R"({"command":"yes"})"));
    lab.stuck.push_back(std::move(stream));
  }
  Rest(kFloodMs);
  return {};
}

}  // namespace

Phases ApiPhases(const Setting& setting) {
  const auto lab = std::make_shared<ApiLab>();
  const auto one = [=] { return lab->one_path(); };
  const auto list = [] { return std::string("/v1/sandboxes"); };
  const std::string asked = "request → answer, one connection";
  return {
      {.run = [=](Take&) -> Status {
        ATOLL_TRY(lab->Open(setting));
        ATOLL_ASSIGN(lab->one, lab->api->Create(kBusyboxImage));
        return lab->api->AwaitQuiet();
      }},
      CreatePhase(lab, {"create, one sandbox", asked, "ms", {}}),
      GetPhase(lab, {"get, one sandbox", asked, "ms", {}}, 200, "few", one),
      GetPhase(lab, {"list, one sandbox", asked, "ms", {}}, 200, "few", list),
      RatePhase(lab, "GET /health", 20000, [] { return std::string("/health"); }),
      RatePhase(lab, "get", 5000, one),
      {.run = [=](Take&) { return Flood(*lab); }},
      GetPhase(lab,
               {"get beside 50 stuck streams",
                "streams full of output that nobody reads",
                "ms",
                {{.at_most = 10, .quantile = 0.99}}},
               2000, "", one),
      {.run =
           [=](Take&) {
             lab->stuck.clear();
             // The commands outlive their streams, so the sandbox is deleted.
             return lab->api->Delete(lab->flooding);
           }},
      {.run = [=](Take&) -> Status {
        ATOLL_TRY(Fill(*lab->daemon, kMany, ""));
        return lab->api->AwaitQuiet();
      }},
      CreatePhase(lab, {"create, 1001 sandboxes",
                        asked,
                        "ms",
                        {{.at_most = 1.3, .over = "api/create, one sandbox"}}}),
      GetPhase(lab, {"get, 1001 sandboxes", asked, "ms", {{.at_most = 1}}}, 200, "many", one),
      GetPhase(lab, {"list, 1001 sandboxes", "a page of 20", "ms", {{.at_most = 10}}}, 200, "many",
               list),
  };
}

}  // namespace atl::bench
