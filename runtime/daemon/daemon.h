// All parts of the serving daemon, in the order of their dependencies.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "images/image_store.h"
#include "images/puller.h"
#include "netpolicy/network.h"
#include "runtime/api/gate/concurrency.h"
#include "runtime/api/routes/api.h"
#include "runtime/base/health.h"
#include "runtime/base/metrics.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/daemon/admin_socket.h"
#include "runtime/daemon/audit_trail.h"
#include "runtime/daemon/config.h"
#include "runtime/daemon/denial_report.h"
#include "runtime/daemon/metrics_export.h"
#include "runtime/http/pooled_loop.h"
#include "runtime/http/server.h"
#include "runtime/launch/spawner_link.h"
#include "runtime/launch/spawner_unpack.h"
#include "runtime/sandbox/create/admission.h"
#include "runtime/sandbox/create/pending_imports.h"
#include "runtime/sandbox/create/slot_pool.h"
#include "runtime/sandbox/host_watch.h"
#include "runtime/sandbox/output/entrypoint_logs.h"
#include "runtime/sandbox/sandboxes.h"
#include "runtime/sandbox/snapshots/layer_watch.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/pool_store.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/store/store_watch.h"
#include "runtime/sandbox/store/template_store.h"
#include "runtime/sandbox/volumes/volumes.h"
#include "runtime/tenants/directory.h"
#include "runtime/tenants/tenant_table.h"

namespace atl::daemon {

class Daemon {
 public:
  // Resources that were opened while root.
  struct Opened {
    UniqueFd listener;
    uint16_t port = 0;
    UniqueFd metrics_listener;  // invalid: metrics are served only by the API
    UniqueFd admin_listener;    // invalid: no tenants
    std::string api_key;
    std::string former_api_key;                   // see FindFormerApiKey
    std::string route_secret;                     // signs routes
    std::shared_ptr<const http::TlsContext> tls;  // null: no TLS
    std::unique_ptr<launch::SpawnerClient> spawner;
    wire::Greeting hello;
    std::unique_ptr<netpolicy::Network> network;
    std::string authorities;  // see Sandboxes::Settings
    Sources sources;          // sources of the configuration, for SIGHUP
  };

  // Call with privileges dropped. Opens the stores, reconciles records and host, and serves once
  // Run is called. If it fails and no sandbox is alive, the network is removed again.
  static Result<std::unique_ptr<Daemon>> Create(const Config& config, Opened opened);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  ~Daemon();

  // Runs until SIGTERM, SIGINT or a shutdown request. SIGHUP reloads the configuration. These three
  // signals must be blocked in the process. Sandboxes keep running.
  Status Run();

 private:
  Daemon(Config config, Opened opened);
  Status Open();
  void TakeBackNetwork();
  std::vector<std::string> PrivateDirectories() const;
  api::ApiConfig MakeApiConfig() const;
  // Returns the limit of requests in flight of all clients; 0: none.
  size_t LimitInFlight() const;
  // Lets root in without a key, if the daemon has tenants.
  Status ServeAdmin();
  // Start the server of metrics.listen, and the export to OpenTelemetry's collector, if configured.
  Status ServeMetrics();
  Status ExportMetrics();
  void CollectOwn(MetricSet* metrics) const;
  MetricSet Collect();
  void UseCertificate(const std::shared_ptr<const http::TlsContext>& tls);
  // Keeps the subject `certificate` of /health current as time passes.
  void WatchCertificate();
  void WatchPeers();
  // Used by api::Api::Parts.
  // Call for each new spawner.
  void TakeTiers(const std::vector<std::string>& tiers);
  void MakeBackup(std::function<void(Result<std::string>)> done);
  void Handle(std::shared_ptr<http::Exchange> exchange);
  Status WatchSignals();
  void OnSignal(uint32_t signal);
  void ReloadConfig();
  void Apply(const Config& config);
  void RotateKey();
  void EndStale();
  void PingWatchdog();
  void WarnAboutLimits() const;
  void Quit();

  Config config_;
  Opened opened_;
  Health health_;
  tenants::TenantTable tenants_;
  // Destroyed in reverse order, so each part comes after those that it uses.
  std::unique_ptr<http::PooledLoop> loop_;
  std::unique_ptr<AuditTrail> audit_;  // null: no audit log
  std::unique_ptr<DenialReport> denials_;
  std::unique_ptr<netpolicy::Network> network_;
  std::unique_ptr<sandbox::SpawnerLink> spawner_;
  std::unique_ptr<sandbox::Store> store_;
  std::unique_ptr<sandbox::StoreWatch> store_watch_;
  std::unique_ptr<sandbox::LayerWatch> layer_watch_;
  std::unique_ptr<sandbox::VolumeStore> volume_store_;
  std::unique_ptr<sandbox::Volumes> volumes_;
  std::unique_ptr<sandbox::ObjectVolumes> objects_;
  std::unique_ptr<sandbox::SpawnerUnpack> unpack_;
  std::unique_ptr<images::ImageStore> images_;
  std::unique_ptr<sandbox::SnapshotStore> snapshot_store_;
  std::unique_ptr<sandbox::Snapshots> snapshots_;
  std::unique_ptr<sandbox::PoolStore> pool_store_;
  std::unique_ptr<sandbox::TemplateStore> template_store_;
  std::unique_ptr<sandbox::SlotPool> slots_;
  std::unique_ptr<sandbox::Admission> admission_;
  std::unique_ptr<sandbox::PendingImports> imports_;
  std::unique_ptr<images::Puller> puller_;
  std::unique_ptr<sandbox::EntrypointLogs> logs_;
  std::unique_ptr<sandbox::History> history_;
  std::unique_ptr<sandbox::Sandboxes> sandboxes_;
  std::unique_ptr<sandbox::HostWatch> host_watch_;
  std::unique_ptr<tenants::Directory> directory_;  // null: no tenants
  bool ends_stale_ = false;                        // EndStale waits for its turn
  std::shared_ptr<api::Measurements> measurements_;
  std::unique_ptr<MetricsExport> metrics_;  // null: no export
  std::unique_ptr<api::Api> api_;
  std::unique_ptr<api::Concurrency> concurrency_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<http::Server> metrics_server_;  // null: none
  std::unique_ptr<AdminSocket> admin_;            // null: no tenants
  UniqueFd signals_;
  Loop::Id signal_watch_ = 0;
  int64_t watchdog_us_ = 0;  // interval of pings; 0: systemd expects none
  bool quitting_ = false;
  uint64_t spawner_restarts_ = 0;
  bool last_reload_worked_ = true;
  int64_t last_reload_ms_ = 0;      // since the Unix epoch; the start counts as a reload
  int64_t certificate_ends_s_ = 0;  // since the Unix epoch; 0: no TLS
  Loop::Id certificate_timer_ = 0;
};

}  // namespace atl::daemon
