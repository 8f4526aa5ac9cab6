#include "runtime/daemon/daemon.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "cgroup/limits_text.h"
#include "cgroup/meters.h"
#include "cgroup/tree.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/ingress/auth.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/notify.h"
#include "runtime/base/project_quota.h"
#include "runtime/daemon/backup.h"
#include "runtime/daemon/certificate.h"
#include "runtime/daemon/directories.h"
#include "runtime/daemon/metering.h"
#include "runtime/daemon/process_metrics.h"
#include "runtime/daemon/reload.h"
#include "runtime/daemon/tenants_setup.h"
#include "runtime/sandbox/metrics.h"

namespace atl::daemon {
namespace {

// Imports use SQLite on a pool thread; more threads would only compete for two CPUs.
constexpr int kPoolThreads = 3;
// Time for exchanges in progress. Longer would make clients wait for the next daemon.
constexpr int kStopGraceMs = 50;
// A healthy collector answers within a few milliseconds.
constexpr int64_t kLastMetricsUs = 200'000;
// Enough for a few scrapers and their retries.
constexpr size_t kMetricsConnections = 32;

#if defined(__aarch64__)
constexpr char kHostArch[] = "arm64";
#else
constexpr char kHostArch[] = "amd64";
#endif

// Texts for /health, and for requests that are refused meanwhile.
sandbox::SpawnerLink::Texts SpawnerTexts(const Config& config) {
  const std::string command =
      config.start_spawner
          ? "restart atolld, or run 'atolld spawner' as root with the flags of atolld"
          : "systemctl start atoll-spawner";
  // No command at first: an upgrade takes some 0.2 s, and who obeyed would end what is about to
  // work.
  return {
      "the spawner has ended: nothing can be created or changed until the next one is there, "
      "normally within a second; try again",
      "there is no spawner, and none has started for 10 s: nothing can be created or changed; "
      "start it: " +
          command};
}

}  // namespace

Daemon::Daemon(Config config, Opened opened)
    : config_(std::move(config)), opened_(std::move(opened)) {}

Daemon::~Daemon() {
  if (loop_) loop_->Unwatch(signal_watch_);
}

Result<std::unique_ptr<Daemon>> Daemon::Create(const Config& config, Opened opened) {
  std::unique_ptr<Daemon> daemon(new Daemon(config, std::move(opened)));
  if (Status open = daemon->Open(); !open) {
    daemon->TakeBackNetwork();
    return Fail(std::move(open).error());
  }
  return daemon;
}

// Rules stay if sandboxes are alive, because these need them.
void Daemon::TakeBackNetwork() {
  netpolicy::Network* network = network_ ? network_.get() : opened_.network.get();
  if (network == nullptr || !opened_.hello.sandboxes.empty()) return;
  if (const Status removed = network->RemoveAll(); !removed) {
    LogLine(LogLevel::kWarning,
            "cannot remove the network rules after a failed start; they stay installed")
        .Add(removed.error());
  }
}

Status Daemon::Open() {
  ATOLL_ASSIGN(loop_, http::PooledLoop::Create(kPoolThreads));
  if (KeepsAudit(config_)) {
    ATOLL_ASSIGN(audit_,
                 AuditTrail::Open(config_, *loop_, SystemClock(), health_, opened_.route_secret));
    audit_->Started();
    ATOLL_TRY(audit_->StartSinks(config_.audit_sinks, *loop_));
  }
  spawner_ = std::make_unique<sandbox::SpawnerLink>(
      std::move(opened_.spawner),
      [run_dir = config_.run_dir] { return launch::SpawnerClient::Open(run_dir); },
      SpawnerTexts(config_));
  // Started before the parts that use it: the image store and the volumes send requests when they
  // find leftovers of a crash. Answers come from the loop, when all parts below exist.
  spawner_->OnVolumeLost(
      [this](const wire::VolumeLost& lost) { sandboxes_->lost_volumes.OnLost(lost); });
  spawner_->Start(
      *loop_, [this](const wire::SandboxRecord& record) { sandboxes_->reconciler.OnExit(record); },
      [this] {
        health_.Set("spawner", spawner_->why());
        sandboxes_->reconciler.OnSpawnerLost();
      });
  spawner_->OnReconnected([this](const wire::Greeting& hello) {
    health_.Clear("spawner");
    ++spawner_restarts_;
    TakeTiers(hello.tiers);
    sandboxes_->check.gpus().SetOffered(hello.devices);
    sandboxes_->reconciler.Reconcile(hello);
    sandboxes_->meter.AskForEnds();
  });
  ATOLL_ASSIGN(store_, sandbox::Store::Open(StateDir(config_) + "/atoll.db", loop_.get()));
  ATOLL_ASSIGN(directory_, OpenDirectory(config_, *loop_, tenants_, opened_.route_secret));
  if (directory_ && !config_.tenants_adopt.empty()) {
    ATOLL_TRY(directory_->Adopt(config_.tenants_adopt, [this]() -> Status {
      ATOLL_ASSIGN(const size_t count, store_->Adopt(config_.tenants_adopt));
      LogLine(LogLevel::kInfo, "a tenant has got the sandboxes from before there were tenants")
          .Add("tenant", config_.tenants_adopt)
          .Add("sandboxes", static_cast<uint64_t>(count));
      return {};
    }));
  }
  store_watch_ = std::make_unique<sandbox::StoreWatch>(
      *loop_, health_, *store_,
      std::vector<sandbox::StoreWatch::Place>{{"<data_dir>/state", StateDir(config_)},
                                              {"<data_dir>/store", config_.data_dir + "/store"},
                                              {"<run_dir>", config_.run_dir}});
  store_watch_->Start();
  ATOLL_ASSIGN(volume_store_, sandbox::VolumeStore::Open(StateDir(config_) + "/atoll.db"));
  const auto& available = opened_.hello.limits_available;
  const bool has_quota = std::find(available.begin(), available.end(), "disk") != available.end();
  std::vector<wire::ObjectStore> stores;
  for (const std::string& line : config_.object_stores) {
    ATOLL_TRY(wire::AddObjectStore(line, &stores));
  }
  objects_ = std::make_unique<sandbox::ObjectVolumes>(*spawner_, std::move(stores));
  ATOLL_ASSIGN(volumes_,
               sandbox::Volumes::Open(
                   *loop_, SystemClock(), *spawner_, *volume_store_,
                   {.has_quota = has_quota, .default_disk_bytes = config_.volume_default_bytes}));
  unpack_ = std::make_unique<sandbox::SpawnerUnpack>(*spawner_);
  ATOLL_ASSIGN(images_, images::ImageStore::Open(StateDir(config_) + "/images", *loop_, *unpack_));
  ATOLL_ASSIGN(snapshot_store_, sandbox::SnapshotStore::Open(StateDir(config_) + "/atoll.db"));
  ATOLL_ASSIGN(snapshots_,
               sandbox::Snapshots::Open(SystemClock(), *spawner_, *images_, *snapshot_store_,
                                        {.max_count = config_.max_snapshots,
                                         .max_bytes = config_.max_snapshot_bytes,
                                         .private_directories = PrivateDirectories()}));
  ATOLL_ASSIGN(pool_store_, sandbox::PoolStore::Open(StateDir(config_) + "/atoll.db"));
  ATOLL_ASSIGN(template_store_, sandbox::TemplateStore::Open(StateDir(config_) + "/atoll.db"));
  network_ = std::move(opened_.network);
  denials_ = std::make_unique<DenialReport>(*loop_, config_.denial_webhook);
  network_->OnDenied([this](const std::string& sandbox, const netpolicy::Denial& denial) {
    const sandbox::Sandbox* const denied =
        sandboxes_ ? sandboxes_->registry.Find(tenants::Caller::Daemon(), sandbox) : nullptr;
    denials_->Report(sandbox, denied == nullptr ? std::string() : denied->tenant, denial);
    if (audit_) audit_->Denied(sandbox, denial);
  });
  ATOLL_TRY(network_->Start(*loop_, health_));

  sandbox::SlotPool::Config pool;
  pool.ready = config_.pool_size;
  pool.tier = IsolationPolicyOf(config_).type;
  pool.ahead = config_.vm_parked != 0;
  if (pool.ahead) pool.ready = config_.vm_parked;
  pool.socket_directory = SocketDir(config_);
  ATOLL_ASSIGN(pool.limits,
               cgroup::ParseLimits({}, config_.limits, {opened_.hello.limits_available}));
  slots_ = std::make_unique<sandbox::SlotPool>(*loop_, SystemClock(), *spawner_, *network_, pool);
  admission_ = std::make_unique<sandbox::Admission>(
      config_.builds_at_once, config_.build_queue, [this](const std::string& name) {
        const tenants::SharedTenant tenant = tenants_.Find(name);
        return tenant ? tenant->weight : 1;
      });
  imports_ = std::make_unique<sandbox::PendingImports>(*loop_, config_.build_queue);
  ATOLL_ASSIGN(puller_, images::Puller::Create(*loop_, *images_,
                                               {.rules = config_.pull_images,
                                                .auth_file = config_.pull_auth_file,
                                                .authorities = config_.pull_ca}));
  logs_ = std::make_unique<sandbox::EntrypointLogs>(
      *loop_, SystemClock(),
      sandbox::EntrypointLogs::Config{StateDir(config_) + "/logs", config_.log_max_bytes});
  ATOLL_ASSIGN(history_,
               sandbox::History::Open(store_->db(), *loop_, sandbox::Store::kRoomForEnds));
  // The daemon itself reads the groups' events, when sandboxes end and for metrics.
  ATOLL_ASSIGN(const cgroup::Host host, cgroup::DetectHost());
  const auto group_events = [host, groups = opened_.hello.cgroup_path](uint32_t slot) {
    return cgroup::EventsOf(host, groups, "s" + std::to_string(slot));
  };
  sandbox::Sandboxes::Settings settings;
  settings.socket_directory = SocketDir(config_);
  settings.instance = opened_.hello.instance;
  settings.check.defaults = config_.limits;
  settings.check.limits_available = {opened_.hello.limits_available, config_.ignore_disk_limits};
  settings.check.host_arch = kHostArch;
  settings.check.allowed_images = config_.allowed_images;
  settings.check.access_tokens = config_.access_token;
  settings.private_directories = PrivateDirectories();
  if (config_.max_sandbox_timeout != 0) {
    settings.check.max_timeout_seconds = static_cast<int64_t>(config_.max_sandbox_timeout);
  }
  if (config_.keep_ended_seconds != 0) {
    settings.keep_ended_seconds = static_cast<int64_t>(config_.keep_ended_seconds);
  }
  if (config_.renew_on_access) {
    settings.renew_interval_seconds = static_cast<int64_t>(config_.renew_min_interval);
  }
  settings.check.idle = {static_cast<int64_t>(config_.idle_after), config_.idle_ends};
  settings.check.pause_reclaims = config_.pause_reclaims;
  settings.check.swap_bytes = opened_.hello.swap_bytes;
  settings.check.isolation = IsolationPolicyOf(config_);
  settings.check.tiers = opened_.hello.tiers;
  settings.check.devices = opened_.hello.devices;
  settings.check.share_devices = config_.gpu_shared;
  settings.cpu_micros = [groups = opened_.hello.cgroup_path](uint32_t slot) {
    return cgroup::CpuMicrosOf(groups + "/s" + std::to_string(slot));
  };
  settings.has_processes = [groups = opened_.hello.cgroup_path](uint32_t slot) {
    return cgroup::HasProcesses(groups + "/s" + std::to_string(slot));
  };
  settings.history = {.keep_seconds = static_cast<int64_t>(config_.history_keep),
                      .max_bytes = config_.history_max_bytes,
                      .log_seconds = static_cast<int64_t>(config_.log_keep_after_removal)};
  ATOLL_ASSIGN(settings.meter, MeterSources(config_, opened_.hello, host));
  ATOLL_ASSIGN(settings.budget, sandbox::BudgetOfHost(config_.overcommit));
  settings.budget.sandboxes = config_.max_sandboxes;
  sandbox::Spec parked;
  parked.isolation = pool.tier;
  parked.limits = pool.limits;
  sandbox::KeepFor(parked, config_.vm_parked, &settings.budget);
  settings.parked_sandboxes = config_.parked_sandboxes;
  settings.authorities = opened_.authorities;
  settings.automatic_pools = config_.automatic_pools;
  settings.recordings = StateDir(config_) + "/recordings";
  sandboxes_ = std::make_unique<sandbox::Sandboxes>(
      sandbox::Sandboxes::Parts{*loop_, SystemClock(), *spawner_, *network_, *images_, *store_,
                                *slots_, *admission_, *imports_, *puller_, *volumes_, *objects_,
                                *snapshots_, *pool_store_, *template_store_, *logs_, *history_,
                                health_, tenants_},
      std::move(settings));
  if (audit_) audit_->Watch(sandboxes_->registry, *history_);
  store_watch_->OnNoRoom([this] { sandboxes_->departures.GiveUp(); });
  ATOLL_TRY(sandboxes_->check.isolation().CheckType());
  layer_watch_ =
      std::make_unique<sandbox::LayerWatch>(*loop_, health_, *spawner_, *images_, *snapshots_);
  WarnAboutLimits();
  ATOLL_TRY(sandboxes_->reconciler.Start(opened_.hello));
  ATOLL_TRY(sandboxes_->meter.Start());
  // Removes layers of a snapshot that was being deleted or taken when an earlier daemon died.
  sandboxes_->layers.Collect();

  measurements_ = std::make_shared<api::Measurements>(SystemClock());
  host_watch_ = std::make_unique<sandbox::HostWatch>(
      *loop_, SystemClock(), *spawner_, sandboxes_->counts,
      sandbox::HostWatch::Places{config_.data_dir + "/store", StateDir(config_)}, group_events);
  host_watch_->Refresh();
  api_ = std::make_unique<api::Api>(
      MakeApiConfig(),
      api::Api::Parts{
          *loop_, *sandboxes_, *imports_, *volumes_, *snapshots_, *logs_, *history_, *network_,
          *images_, *admission_, *slots_, health_, *measurements_, tenants_, directory_.get(),
          [this] {
            MetricSet metrics = Collect();
            api_->AddMetrics(&metrics);
            return metrics;
          },
          [this](auto done) { MakeBackup(std::move(done)); }, audit_ ? audit_->auditor() : nullptr},
      [this] { Quit(); });
  ATOLL_TRY(ExportMetrics());
  concurrency_ = std::make_unique<api::Concurrency>(
      LimitInFlight(),
      [this](std::shared_ptr<http::Exchange> exchange) { api_->Handle(std::move(exchange)); });
  http::ServerConfig server;
  server.host = config_.host;
  server.port = opened_.port;
  server.listen_fd = opened_.listener.release();
  server.keep_alive_seconds = static_cast<int>(config_.keep_alive);
  last_reload_ms_ = SystemClock().UnixMillis();
  UseCertificate(opened_.tls);
  server.tls = std::move(opened_.tls);
  ATOLL_ASSIGN(server_, http::Server::Listen(*loop_, server,
                                             [this](std::shared_ptr<http::Exchange> exchange) {
                                               Handle(std::move(exchange));
                                             }));
  if (directory_) directory_->OnEnd([this](const std::string&) { EndStale(); });
  WatchPeers();
  ATOLL_TRY(ServeMetrics());
  ATOLL_TRY(ServeAdmin());
  return WatchSignals();
}

Status Daemon::ServeAdmin() {
  if (!opened_.admin_listener) return {};
  // The bound on requests in hand does not count here: root gets in when the daemon is overloaded.
  ATOLL_ASSIGN(admin_,
               AdminSocket::Serve(
                   *loop_, std::move(opened_.admin_listener),
                   [this](std::shared_ptr<http::Exchange> exchange, const tenants::Identity& root) {
                     std::string route = api_->TemplateOf(exchange->request());
                     api_->Handle(api::Measurements::Measure(measurements_, std::move(exchange),
                                                             std::move(route)),
                                  root);
                   }));
  return {};
}

void Daemon::TakeTiers(const std::vector<std::string>& tiers) {
  sandbox::Isolation& isolation = sandboxes_->check.isolation();
  isolation.SetAvailable(tiers);
  if (const Status type = isolation.CheckType(); !type) {
    health_.Set("isolation", type.error().message());
  } else {
    health_.Clear("isolation");
  }
}

void Daemon::MakeBackup(std::function<void(Result<std::string>)> done) {
  layer_watch_->FindStore([this, done = std::move(done)](const Result<std::string>& store) {
    if (!store) return done(Fail(store.error()));
    // The ledger then has what was used until now.
    sandboxes_->meter.Checkpoint([this, done, store = *store] {
      auto read = ReadState(config_);
      if (!read) return done(Fail(std::move(read).error()));
      const auto files = std::make_shared<StateFiles>(std::move(*read));
      const auto text = std::make_shared<Result<std::string>>(std::string());
      loop_->RunBlocking(
          [files, store, text, config = config_] { *text = BackupText(config, *files, store); },
          [text, done] { done(std::move(*text)); });
    });
  });
}

// No API key is required: whoever configures the address decides who reaches it. Requests from web
// pages are refused, whatever address their name resolves to.
Status Daemon::ServeMetrics() {
  if (!opened_.metrics_listener) return {};
  http::ServerConfig server;
  server.listen_fd = opened_.metrics_listener.release();
  server.max_connections = kMetricsConnections;
  const auto serve = [this](const std::shared_ptr<http::Exchange>& exchange) {
    const http::Request& request = exchange->request();
    http::Response response;
    if (request.path() != "/metrics" || (request.method != "GET" && request.method != "HEAD")) {
      response =
          api::ErrorResponse({404, "GENERAL::NOT_FOUND", "only GET /metrics is served here"});
    } else if (api::IsOfAPage(request.headers)) {
      response = api::ErrorResponse({403, "FORBIDDEN_ORIGIN", "web pages may not read metrics"});
    } else {
      response = api_->MetricsResponse();
    }
    exchange->Respond(std::move(response));
  };
  ATOLL_ASSIGN(metrics_server_, http::Server::Listen(*loop_, server, serve));
  LogLine(LogLevel::kInfo, "serving metrics").Add("address", config_.metrics_listen);
  return {};
}

MetricSet Daemon::Collect() {
  host_watch_->Refresh();
  MetricSet metrics;
  CollectOwn(&metrics);
  sandbox::AddMetrics(*sandboxes_, *snapshots_, *admission_, *slots_, *network_, *images_, health_,
                      host_watch_->last(), host_watch_->quotas(), &metrics);
  return metrics;
}

void Daemon::CollectOwn(MetricSet* metrics) const {
  metrics->Gauge("atoll_build_info", "1, with the version of the daemon.", {"version"})
      .Add(1, {ATOLL_VERSION});
  AddProcessMetrics(metrics);
  metrics->Counter("atoll_spawner_restarts_total", "Spawners that replaced a lost one.")
      .Add(spawner_restarts_);
  metrics
      ->Gauge("atoll_config_last_reload_successful",
              "Whether the last reload of the configuration succeeded.")
      .Add(last_reload_worked_ ? 1 : 0);
  metrics
      ->Gauge("atoll_config_last_reload_success_timestamp_seconds",
              "Time of the last successful load of the configuration, since the Unix epoch.")
      .Add(static_cast<double>(last_reload_ms_) / 1e3);
  MetricFamily& certificate =
      metrics->Gauge("atoll_tls_certificate_not_after_timestamp_seconds",
                     "When the certificate expires, since the Unix epoch. Absent without TLS.");
  if (certificate_ends_s_ != 0) certificate.Add(certificate_ends_s_);
  denials_->AddMetrics(metrics);
  if (audit_) audit_->AddMetrics(metrics);
  tenants::Directory::AddMetrics(directory_.get(), metrics);
  metrics->Gauge("atoll_http_in_flight", "Requests being handled by the daemon.")
      .Add(concurrency_->in_hand());
  metrics
      ->Gauge(
          "atoll_http_open_streams",
          "Answers under way that may last: streams, answers of sandboxes, WebSockets, forwards.")
      .Add(server_->open_streams());
  metrics
      ->Counter("atoll_http_refused_total",
                "Requests refused because server.limit_concurrency was reached.")
      .Add(concurrency_->refused() + api_->refused());
}

void Daemon::UseCertificate(const std::shared_ptr<const http::TlsContext>& tls) {
  certificate_ends_s_ = tls ? tls->not_after() : 0;
  WatchCertificate();
}

void Daemon::WatchCertificate() {
  constexpr int64_t kLookUs = 60 * 1000 * 1000;
  constexpr int64_t kWarnSeconds = 7 * 24 * 3600;
  loop_->Cancel(std::exchange(certificate_timer_, 0));
  if (certificate_ends_s_ == 0) return health_.Clear("certificate");
  const int64_t left_s = certificate_ends_s_ - SystemClock().UnixMillis() / 1000;
  const std::string date = api::FormatTime(certificate_ends_s_ * 1000);
  std::string trouble;
  if (left_s <= kWarnSeconds) {
    trouble = "the certificate of server.tls_cert " +
              (left_s <= 0 ? "expired on " + date + ": clients refuse it" : "expires on " + date) +
              "; renew the file, then reload atolld";
  }
  health_.Set("certificate", std::move(trouble));
  certificate_timer_ = loop_->After(kLookUs, [this] { WatchCertificate(); });
}

// Servers elsewhere that the daemon needs.
void Daemon::WatchPeers() {
  constexpr int64_t kLookUs = 10 * 1000 * 1000;
  if (audit_) health_.Set("audit_sinks", audit_->Trouble());
  if (directory_) health_.Set("tenants_provider", directory_->Trouble());
  if (audit_ || directory_) loop_->After(kLookUs, [this] { WatchPeers(); });
}

Status Daemon::ExportMetrics() {
  ATOLL_ASSIGN(auto settings, FindOtelSettings(config_, opened_.sources.environment));
  if (!settings) return {};
  LogLine(LogLevel::kInfo, "exporting metrics").Add("url", settings->url);
  metrics_ = std::make_unique<MetricsExport>(*loop_, SystemClock(), std::move(*settings), [this] {
    MetricSet metrics = Collect();
    measurements_->AddUpstream(&metrics);
    return metrics;
  });
  metrics_->Start();
  return {};
}

void Daemon::Handle(std::shared_ptr<http::Exchange> exchange) {
  std::string route = api_->TemplateOf(exchange->request());
  concurrency_->Handle(
      api::Measurements::Measure(measurements_, std::move(exchange), std::move(route)));
}

std::vector<std::string> Daemon::PrivateDirectories() const {
  return {config_.run_dir, config_.data_dir, "/sys/fs/cgroup", "/proc/self"};
}

size_t Daemon::LimitInFlight() const {
  // The shares of tenants keep the limit itself.
  const size_t limit = config_.limit_concurrency;
  return tenants_.enabled() ? limit * api::kOverShares : limit;
}

api::ApiConfig Daemon::MakeApiConfig() const {
  api::ApiConfig api;
  api.private_directories = PrivateDirectories();
  api.tell_isolation = !config_.isolation.empty();
  api.prices = PricesOf(config_);
  api.api_key = opened_.api_key;
  api.limit_concurrency = config_.limit_concurrency;
  api.record_pty = config_.record_pty == "off"      ? api::RecordPty::kOff
                   : config_.record_pty == "output" ? api::RecordPty::kOutput
                                                    : api::RecordPty::kInput;
  api.audit_refuses = config_.audit_refuses;
  api.ingress.egress_secret = opened_.route_secret;
  api.ingress.former_api_key = opened_.former_api_key;
  api.ingress.short_signatures = config_.short_signatures;
  if (config_.signing_keys.empty()) {
    api.ingress.keys = {{api.ingress.active_key, opened_.route_secret}};
  } else {
    api.ingress.active_key = config_.active_signing_key;
    for (const SigningKey& key : config_.signing_keys) {
      api.ingress.keys.push_back({key.id, key.secret});
    }
  }
  if (config_.gateway) {
    api.ingress.told = config_.gateway_route == "wildcard" ? api::RouteForm::kHost
                       : config_.gateway_route == "uri"    ? api::RouteForm::kUri
                                                           : api::RouteForm::kHeader;
    api.ingress.address = config_.gateway_address;
  }
  if (api.ingress.told == api::RouteForm::kHost) {
    api.ingress.address.erase(0, 2);  // "*."
    api.ingress.domain = api.ingress.address.substr(0, api.ingress.address.find(':'));
  }
  api.endpoint.public_host = config_.public_host;
  api.endpoint.base_path = config_.base_path;
  api.endpoint.address = config_.host + ":" + std::to_string(opened_.port);
  return api;
}

void Daemon::WarnAboutLimits() const {
  const auto& available = opened_.hello.limits_available;
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    if (field.need == cgroup::LimitNeed::kOptional ||
        std::find(available.begin(), available.end(), field.key) != available.end()) {
      continue;
    }
    LogLine(LogLevel::kWarning,
            "this host cannot enforce a limit: sandboxes run without it, and requests for it are "
            "refused ('atoll doctor' says why)")
        .Add("limit", field.key);
  }
  if (std::find(available.begin(), available.end(), "disk") == available.end()) {
    LogLine(LogLevel::kWarning,
            config_.ignore_disk_limits
                ? "the store has no project quotas: sandboxes may fill the disk, disk limits of "
                  "requests are ignored (storage.ignore_disk_limits)"
                : "the store has no project quotas: sandboxes may fill the disk, requests for a "
                  "disk limit are refused")
        .Add("remedy", quota::Remedy())
        .Add("data_dir", config_.data_dir);
  }
}

Status Daemon::WatchSignals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGTERM);
  sigaddset(&wanted, SIGINT);
  sigaddset(&wanted, SIGHUP);
  signals_ = UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return FailSys("signalfd");
  signal_watch_ = loop_->WatchReadable(signals_.get(), [this] {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) == sizeof info) OnSignal(info.ssi_signo);
  });
  return {};
}

void Daemon::OnSignal(uint32_t signal) {
  if (signal == SIGHUP) return ReloadConfig();
  LogLine(LogLevel::kInfo, "stopping; sandboxes are left running")
      .Add("signal", static_cast<uint64_t>(signal));
  Quit();
}

void Daemon::ReloadConfig() {
  if (quitting_) return;
  NotifySystemd(ReloadingState());
  const auto failed = [this](const Error& error) {
    last_reload_worked_ = false;
    if (audit_) audit_->ReloadFailed();
    LogLine(LogLevel::kError, "cannot reload the configuration; nothing has changed").Add(error);
    NotifySystemd("READY=1\nSTATUS=Serving; the last reload failed");
  };
  auto reload = PlanReload(config_, opened_.sources);
  if (!reload) return failed(reload.error());
  // Reloaded even if the file names are unchanged, because certificates are renewed in place.
  auto tls = LoadCertificate(reload->config);
  if (!tls) return failed(tls.error());
  tenants::TenantsFile file;
  if (directory_) {
    auto read = ReadTenants(reload->config);
    if (!read) return failed(read.error());
    file = std::move(*read);
  }
  const bool rotates = reload->config.api_key != config_.api_key;
  if (rotates && config_.api_key.empty()) {
    const Status replaced = ReplaceApiKey(config_, reload->config.api_key);
    if (!replaced) return failed(Error(replaced.error()).Wrap("server.api_key"));
  }
  UseCertificate(*tls);
  server_->SetTls(std::move(*tls));
  for (const std::string& warning : reload->warnings) LogLine(LogLevel::kWarning, warning);
  if (audit_) audit_->Reloaded(*reload);
  Apply(reload->config);
  if (directory_) {
    WarnOfTenants(file);
    directory_->Replace(std::move(file));
    EndStale();
  }
  if (rotates) RotateKey();
  last_reload_worked_ = true;
  last_reload_ms_ = SystemClock().UnixMillis();
  const bool all = reload->deferred.empty();
  LogLine line(all ? LogLevel::kInfo : LogLevel::kWarning, "reloaded the configuration");
  for (const std::string& key : reload->changed) line.Add("changed", key);
  for (const std::string& key : reload->deferred) line.Add("needs_restart", key);
  NotifySystemd("READY=1\nSTATUS=Serving");
}

// Applies the keys that the table marks as live.
void Daemon::Apply(const Config& config) {
  config_ = config;
  SetLogLevel(config_.log_level);
  SetLogFormat(config_.log_format);
  sandboxes_->check.SetDefaultLimits(config_.limits);
  concurrency_->SetLimit(LimitInFlight());
  api_->SetLimit(config_.limit_concurrency);
}

// Ends what was authorised by the old key.
void Daemon::RotateKey() {
  api_->SetApiKey(config_.api_key);
  server_->EndExchanges([](const std::string&) { return true; });
  LogLine(
      LogLevel::kInfo,
      "the API key was replaced: streams were cut, and clients must fetch sandboxes' tokens again");
}

// Ends what dead keys have opened. Many keys may end at once: one look at all connections is
// enough.
void Daemon::EndStale() {
  if (std::exchange(ends_stale_, true)) return;
  loop_->Post([this] {
    ends_stale_ = false;
    server_->EndExchanges(
        [this](const std::string& authority) { return !api_->Stands(authority); });
  });
}

// Runs on the loop: if the loop hangs, systemd must restart the daemon.
void Daemon::PingWatchdog() {
  NotifySystemd("WATCHDOG=1");
  loop_->After(watchdog_us_, [this] { PingWatchdog(); });
}

void Daemon::Quit() {
  if (std::exchange(quitting_, true)) return;
  NotifySystemd("STOPPING=1");
  server_->Stop(kStopGraceMs, [this] {
    if (!metrics_) return loop_->Quit();
    metrics_->Finish(kLastMetricsUs, [this] { loop_->Quit(); });
  });
}

Status Daemon::Run() {
  LogLine(LogLevel::kInfo, "serving")
      .Add("address", config_.host)
      .Add("port", static_cast<uint64_t>(opened_.port))
      .Add("limits", opened_.hello.cgroup_v2 ? "cgroup v2" : "cgroup hybrid")
      .Add("instance", opened_.hello.instance);
  NotifySystemd("READY=1\nSTATUS=Serving");
  watchdog_us_ = WatchdogMicros() / 2;
  if (watchdog_us_ > 0) PingWatchdog();
  loop_->Run();
  if (audit_) audit_->Stopped();
  return {};
}

}  // namespace atl::daemon
