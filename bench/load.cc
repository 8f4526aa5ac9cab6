// Measures many clients at once, each with a thread and a connection of its own, and the host
// memory that idle sandboxes use.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <functional>
#include <latch>
#include <thread>

#include "bench/clock.h"
#include "bench/floor.h"
#include "bench/host_view.h"
#include "bench/lab.h"
#include "bench/process.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

constexpr int kIdle = 50;
constexpr int kCrowd = 100;
constexpr int64_t kRateUs = 2'000'000;

struct Client {
  explicit Client(SandboxApi connected) : api(std::move(connected)) {}
  SandboxApi api;
  Sandbox sandbox;
  Status result;
  int64_t created_us = 0, first_us = 0;
  int64_t done = 0;  // completed sandboxes
};

Result<std::vector<std::unique_ptr<Client>>> Connect(const Lab& lab, int count) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < count; ++i) {
    ATOLL_ASSIGN(SandboxApi api, lab.daemon->Connect());
    // A first request makes sure that the daemon has accepted the connection.
    ATOLL_TRY(api.Metrics());
    clients.push_back(std::make_unique<Client>(std::move(api)));
  }
  return clients;
}

// Runs `body` for all clients at once. Returns the time at which the first one began.
int64_t RunTogether(const std::vector<std::unique_ptr<Client>>& all,
                    const std::function<void(Client&)>& body) {
  std::latch ready(static_cast<std::ptrdiff_t>(all.size()));
  std::latch go(1);
  std::vector<std::thread> threads;
  for (const auto& one : all) {
    threads.emplace_back([&, raw = one.get()] {
      ready.count_down();
      go.wait();
      body(*raw);
    });
  }
  ready.wait();
  const int64_t start = NowMicros();
  go.count_down();
  for (std::thread& thread : threads) thread.join();
  return start;
}

// Claimed from the pool, or built from the image.
enum class Source { kImage, kPool };

Status CreateAndEcho(Client& client, Source source) {
  const int64_t start = NowMicros();
  ATOLL_ASSIGN(client.sandbox, source == Source::kPool ? client.api.Claim(kPoolName)
                                                       : client.api.Create(kBusyboxImage));
  client.created_us = MicrosSince(start);
  ATOLL_TRY(client.api.FindExecd(&client.sandbox));
  const int64_t before = MicrosSince(start);
  ATOLL_ASSIGN(const CommandMicros command, client.api.Echo(client.sandbox));
  client.first_us = before + command.first;
  return {};
}

Status LiveAndDie(Client& client) {
  ATOLL_TRY(CreateAndEcho(client, Source::kImage));
  ATOLL_TRY(client.api.Delete(client.sandbox));
  ++client.done;
  return {};
}

Status Burst(Lab& lab, int size, Source source, const std::string& name, Take& take) {
  ATOLL_ASSIGN(const auto clients, Connect(lab, size));
  if (source == Source::kPool) ATOLL_TRY(lab.api->AwaitParked(kPoolName, size));
  ATOLL_TRY(lab.api->AwaitQuiet());
  // Gives the kernel time to remove what the last turn left.
  Rest(500);
  const int64_t start =
      RunTogether(clients, [source](Client& c) { c.result = CreateAndEcho(c, source); });
  const int64_t wall = MicrosSince(start);
  int failed = 0;
  std::string error;
  for (const auto& client : clients) {
    if (!client->sandbox.id.empty()) ATOLL_TRY(lab.api->Delete(client->sandbox));
    if (client->result) continue;
    if (failed++ == 0) error = client->result.error().message();
  }
  if (failed > 0) {
    return Fail(Code::kInternal, std::to_string(failed) + " of " + std::to_string(size) +
                                     " creates failed, the first: " + error);
  }
  take.AddMs(name + ": all", wall);
  for (const auto& client : clients) {
    take.AddMs(name + ": create answered", client->created_us);
    take.AddMs(name + ": first output", client->first_us);
  }
  return {};
}

Phase BurstPhase(const std::shared_ptr<Lab>& lab, int size, Source source, int rounds,
                 std::vector<Bound> bounds) {
  const bool claimed = source == Source::kPool;
  const std::string name = std::to_string(size) + " at once" + (claimed ? ", of a pool" : "");
  return {.series = {{name + ": all", "first create sent → last output here; all must succeed",
                      "ms", std::move(bounds)},
                     {name + ": create answered", "each by itself", "ms", {}},
                     {name + ": first output", "each by itself", "ms", {}}},
          .samples = rounds,
          .host = claimed,  // an older release has no pools
          .run = [=](Take& take) { return Burst(*lab, size, source, name, take); }};
}

Phase RatePhase(const std::shared_ptr<Lab>& lab, int clients, std::vector<Bound> bounds) {
  const std::string name = "lives a second, " + std::to_string(clients) + " clients";
  return {.series = {{name, "create, first output, delete, for 2 s", "1/s", std::move(bounds)}},
          .samples = 5,
          .turns = "rate",
          .run = [=](Take& take) -> Status {
            ATOLL_ASSIGN(const auto all, Connect(*lab, clients));
            ATOLL_TRY(lab->api->AwaitQuiet());
            const int64_t end = NowMicros() + kRateUs;
            const int64_t start = RunTogether(all, [end](Client& client) {
              while (client.result && NowMicros() < end) client.result = LiveAndDie(client);
            });
            const auto took = static_cast<double>(MicrosSince(start));
            double done = 0;
            for (const auto& client : all) {
              if (!client->result) return Fail(std::move(client->result).error());
              done += static_cast<double>(client->done);
            }
            take.Add(name, done / (took / 1e6));
            return {};
          }};
}

// Runs in a process of its own: makes and ends bare sandboxes for a while, and reports the samples
// as text. The child that a floor makes shares its memory with its parent until it executes, and
// only one thread of a process may do that at a time.
std::string RunFloor(int talk, const std::string& directory) {
  auto floor = Floor::Open(directory);
  if (!floor) return "!" + floor.error().message();
  char go = 0;
  if (!sys::WriteAll(talk, "r") || ::read(talk, &go, 1) != 1) return "!nobody asks";
  const int64_t start = NowMicros();
  int64_t done = 0;
  while (MicrosSince(start) < kRateUs) {
    const auto life = (*floor)->Live();
    if (!life) return "!" + life.error().message();
    ++done;
  }
  return std::to_string(done * 1'000'000 / MicrosSince(start));
}

struct FloorProcess {
  pid_t pid = -1;
  UniqueFd talk;

  static Result<FloorProcess> Start(const std::string& directory) {
    ATOLL_ASSIGN(sys::SocketPair pair, sys::UnixPair(SOCK_STREAM));
    const pid_t pid = ::fork();
    if (pid < 0) return FailSys("fork");
    if (pid > 0) return FloorProcess{pid, std::move(pair.a)};
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    pair.a.reset();
    const Status told = sys::WriteAll(pair.b.get(), RunFloor(pair.b.get(), directory));
    ::_exit(told ? 0 : 1);
  }
  Status Ready() const {
    char ready = 0;
    if (::read(talk.get(), &ready, 1) == 1 && ready == 'r') return {};
    ATOLL_ASSIGN(const std::string why, sys::ReadAll(talk.get(), 4096));
    return Fail(Code::kInternal, "floor: " + why);
  }
  Result<double> Rate() const {
    ATOLL_ASSIGN(const std::string told, sys::ReadAll(talk.get(), 4096));
    double rate = 0;
    const auto [end, error] = std::from_chars(told.data(), told.data() + told.size(), rate);
    if (error == std::errc() && rate > 0) return rate;
    return Fail(Code::kInternal, "floor: " + told);
  }
};

Status FloorRate(const std::string& top, const std::string& name, Take& take) {
  std::vector<FloorProcess> processes;
  for (const char* directory : {"/floor1", "/floor2"}) {
    ATOLL_ASSIGN(processes.emplace_back(), FloorProcess::Start(top + directory));
  }
  double sum = 0;
  const auto all = [&]() -> Status {
    for (const FloorProcess& process : processes) ATOLL_TRY(process.Ready());
    for (const FloorProcess& process : processes) ATOLL_TRY(sys::WriteAll(process.talk.get(), "g"));
    for (const FloorProcess& process : processes) {
      ATOLL_ASSIGN(const double rate, process.Rate());
      sum += rate;
    }
    return {};
  };
  const Status status = all();
  for (FloorProcess& process : processes) {
    process.talk.reset();
    (void)Await(process.pid, "floor");
  }
  ATOLL_TRY(status);
  take.Add(name, sum);
  return {};
}

struct Sizes {
  double atolld = 0, spawner = 0;
};

Result<Sizes> OwnSizes(const OwnDaemon& daemon) {
  Sizes sizes;
  ATOLL_ASSIGN(sizes.atolld, PssKib(daemon.pid()));
  for (const pid_t pid : daemon.spawner()) {
    ATOLL_ASSIGN(const double pss, PssKib(pid));
    sizes.spawner += pss;
  }
  return sizes;
}

// The kernel frees what earlier deletes have left to it (namespaces, RCU) within a second or so.
Status AwaitMemory(Lab& lab) {
  ATOLL_TRY(lab.api->AwaitQuiet());
  Rest(1500);
  return {};
}

Status Idle(Lab& lab, Take& take) {
  ATOLL_TRY(AwaitMemory(lab));
  ATOLL_ASSIGN(const Sizes own, OwnSizes(*lab.daemon));
  ATOLL_ASSIGN(const Memory before, ReadMemory());
  std::vector<Sandbox> made;
  for (int i = 0; i < kIdle; ++i) {
    ATOLL_ASSIGN(made.emplace_back(), lab.api->Create(kBusyboxImage));
  }
  ATOLL_TRY(AwaitMemory(lab));
  ATOLL_ASSIGN(const Memory after, ReadMemory());
  ATOLL_ASSIGN(const Sizes grown, OwnSizes(*lab.daemon));
  ATOLL_ASSIGN(const auto places, FindSandboxes(lab.daemon->spawner(), lab.daemon->data_dir()));
  if (places.size() != made.size()) {
    return Fail(Code::kInternal, std::to_string(places.size()) + " sandboxes of " +
                                     std::to_string(made.size()) + " are to be seen on the host");
  }
  double sum = 0;
  const auto add = [&](const char* series, double kib) {
    take.Add(series, kib / kIdle);
    sum += kib;
  };
  double execd = 0;
  for (const Place& place : places) {
    ATOLL_ASSIGN(const double pss, PssKib(place.pid));
    execd += pss;
  }
  add("idle: execd", execd);
  add("idle: atolld", grown.atolld - own.atolld);
  add("idle: spawner", grown.spawner - own.spawner);
  add("idle: kernel", after.kernel_kib - before.kernel_kib);
  take.Add("idle: all", sum / kIdle);
  take.Add("idle: MemAvailable", (before.available_kib - after.available_kib) / kIdle);
  for (const Sandbox& sandbox : made) ATOLL_TRY(lab.api->Delete(sandbox));
  return {};
}

}  // namespace

Phases LoadPhases(const Setting& setting) {
  const auto lab = std::make_shared<Lab>();
  const auto pooled = std::make_shared<Lab>();
  return {
      {.run = [=](Take&) { return lab->Open(setting); }},
      BurstPhase(lab, 1, Source::kImage, 10, {}),
      BurstPhase(lab, 8, Source::kImage, 10, {}),
      BurstPhase(lab, kCrowd, Source::kImage, 5, {{.at_most = 500}}),
      RatePhase(lab, 1, {}),
      RatePhase(lab, 2, {}),
      RatePhase(lab, 8,
                {{.at_least = 240}, {.at_least = 0.7, .over = "load/floor: lives a second"}}),
      {.series = {{"floor: lives a second", "the same by bare system calls, 2 at once", "1/s", {}}},
       .samples = 5,
       .turns = "rate",
       .host = true,
       .run =
           [=](Take& take) {
             return FloorRate(lab->daemon->top(), "floor: lives a second", take);
           }},
      {.series = {{"idle: execd", "proportional set size", "KiB", {}},
                  {"idle: atolld", "growth of its proportional set size", "KiB", {}},
                  {"idle: spawner", "growth of its proportional set size", "KiB", {}},
                  {"idle: kernel", "unreclaimable slab, stacks, page tables, per-CPU", "KiB", {}},
                  {"idle: all",
                   "sum of these; each is for one of 50 idle sandboxes",
                   "KiB",
                   {{.at_most = 1024}}},
                  {"idle: MemAvailable", "how far it fell, the entrypoint included", "KiB", {}}},
       .samples = 3,
       .run = [=](Take& take) { return Idle(*lab, take); }},
      // Comes last: the parked sandboxes would slow down all other phases.
      {.host = true,
       .run = [=](Take&) -> Status {
         const std::string crowd = std::to_string(kCrowd);
         ATOLL_TRY(pooled->Open(setting, {"--runtime-parked-sandboxes", crowd}));
         return pooled->api->MakePool(kPoolName, kBusyboxImage, kCrowd);
       }},
      BurstPhase(pooled, kCrowd, Source::kPool, 5, {{.at_most = 300}}),
  };
}

}  // namespace atl::bench
