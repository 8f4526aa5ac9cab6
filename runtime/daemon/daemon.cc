#include "runtime/daemon/daemon.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/daemon/directories.h"
#include "runtime/daemon/notify.h"

namespace atl::daemon {
namespace {

// Import and SQLite on import; more would only compete for two cores.
constexpr int kPoolThreads = 3;
constexpr int kStopGraceMs = 5000;

#if defined(__aarch64__)
constexpr char kHostArch[] = "arm64";
#else
constexpr char kHostArch[] = "amd64";
#endif

}  // namespace

Daemon::Daemon(Config config, Opened opened)
    : config_(std::move(config)), opened_(std::move(opened)) {}

Daemon::~Daemon() {
  if (loop_) loop_->Unwatch(signal_watch_);
}

Result<std::unique_ptr<Daemon>> Daemon::Create(const Config& config, Opened opened) {
  std::unique_ptr<Daemon> daemon(new Daemon(config, std::move(opened)));
  ATOLL_TRY(daemon->Open());
  return daemon;
}

Status Daemon::Open() {
  loop_ = http::AsioLoop::Create(kPoolThreads);
  spawner_ = std::make_unique<sandbox::SpawnerLink>(
      std::move(opened_.spawner), [run_dir = config_.run_dir](wire::Reply* hello) {
        return launch::SpawnerClient::Connect(run_dir, hello);
      });
  ATOLL_ASSIGN(store_, sandbox::Store::Open(StateDir(config_) + "/atoll.db", loop_.get()));
  unpack_ = std::make_unique<sandbox::SpawnerUnpack>(*spawner_);
  ATOLL_ASSIGN(images_, images::ImageStore::Open(StateDir(config_) + "/images", *loop_, *unpack_));
  network_ = std::move(opened_.network);
  ATOLL_TRY(network_->Start(*loop_));

  sandbox::SlotPool::Config pool;
  pool.ready = config_.pool_size;
  pool.socket_directory = SocketDir(config_);
  ATOLL_ASSIGN(pool.limits,
               cgroup::ParseLimits({}, cgroup::LimitDefaults(), opened_.hello.limits_available));
  slots_ = std::make_unique<sandbox::SlotPool>(*loop_, SystemClock(), *spawner_, *network_, pool);
  sandbox::LifecycleConfig lifecycle;
  lifecycle.socket_directory = SocketDir(config_);
  lifecycle.instance = opened_.hello.instance;
  lifecycle.limits_available = opened_.hello.limits_available;
  lifecycle.host_arch = kHostArch;
  lifecycle.access_tokens = config_.access_token;
  lifecycle.budget = sandbox::BudgetOfHost(config_.overcommit);
  lifecycle_ = std::make_unique<sandbox::Lifecycle>(
      sandbox::Lifecycle::Parts{*loop_, SystemClock(), *spawner_, *network_, *images_, *store_,
                                *slots_},
      std::move(lifecycle));
  spawner_->Start(
      *loop_, [this](const wire::SandboxRecord& record) { lifecycle_->OnExit(record); }, [] {});
  spawner_->OnReconnected([this](const wire::Reply& hello) { lifecycle_->Reconcile(hello); });
  WarnAboutLimits();
  ATOLL_TRY(lifecycle_->Start(opened_.hello));

  api::ApiConfig api;
  api.api_key = opened_.api_key;
  api.ingress.keys = {{api.ingress.active_key, opened_.route_secret}};
  api.endpoint.address = config_.host + ":" + std::to_string(opened_.port);
  api_ = std::make_unique<api::Api>(std::move(api), *lifecycle_, *images_, [this] { Quit(); });
  http::ServerConfig server;
  server.host = config_.host;
  server.port = opened_.port;
  server.listen_fd = opened_.listener.release();
  ATOLL_ASSIGN(server_, loop_->Listen(server, [this](std::shared_ptr<http::Exchange> exchange) {
    api_->Handle(std::move(exchange));
  }));
  return WatchSignals();
}

void Daemon::WarnAboutLimits() const {
  const auto& available = opened_.hello.limits_available;
  for (const char* limit : {"memory", "pids", "cpu"}) {
    if (std::find(available.begin(), available.end(), limit) != available.end()) continue;
    LogLine(LogLevel::kWarning,
            "this host cannot enforce a limit: sandboxes run without it, requests for it are "
            "refused ('atoll doctor' says why)")
        .Add("limit", limit);
  }
}

Status Daemon::WatchSignals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGTERM);
  sigaddset(&wanted, SIGINT);
  signals_ = UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return FailSys("signalfd");
  signal_watch_ = loop_->WatchReadable(signals_.get(), [this] {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) return;
    LogLine(LogLevel::kInfo, "stopping; sandboxes are left running")
        .Add("signal", static_cast<uint64_t>(info.ssi_signo));
    Quit();
  });
  return {};
}

void Daemon::Quit() {
  if (std::exchange(quitting_, true)) return;
  NotifySystemd("STOPPING=1");
  server_->Stop(kStopGraceMs, [this] { loop_->Quit(); });
}

Status Daemon::Run() {
  LogLine(LogLevel::kInfo, "serving")
      .Add("address", config_.host)
      .Add("port", static_cast<uint64_t>(opened_.port))
      .Add("limits", opened_.hello.cgroup_v2 ? "cgroup v2" : "cgroup hybrid")
      .Add("instance", opened_.hello.instance);
  NotifySystemd("READY=1");
  loop_->Run();
  return {};
}

}  // namespace atl::daemon
