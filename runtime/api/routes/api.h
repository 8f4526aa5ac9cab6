// The OpenSandbox API. A request passes these steps in order: request id, route into a sandbox,
// CORS, key, route of the API. So even a 401 carries the id, and a server in a sandbox answers its
// own preflights.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "images/image_store.h"
#include "netpolicy/network.h"
#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/measurements.h"
#include "runtime/api/gate/router.h"
#include "runtime/api/gate/shares.h"
#include "runtime/api/ingress/admin_entries.h"
#include "runtime/api/ingress/authenticator.h"
#include "runtime/api/ingress/endpoint.h"
#include "runtime/api/ingress/guess_limit.h"
#include "runtime/api/ingress/ingress.h"
#include "runtime/api/ingress/proxy_judge.h"
#include "runtime/api/ingress/terminal_recorder.h"
#include "runtime/api/requests/create_request.h"
#include "runtime/api/routes/diagnostics.h"
#include "runtime/base/health.h"
#include "runtime/base/metrics.h"
#include "runtime/http/server.h"
#include "runtime/sandbox/create/admission.h"
#include "runtime/sandbox/create/pending_imports.h"
#include "runtime/sandbox/create/slot_pool.h"
#include "runtime/sandbox/output/entrypoint_logs.h"
#include "runtime/sandbox/sandboxes.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/volumes/volumes.h"
#include "runtime/tenants/directory.h"
#include "runtime/tenants/tenant_table.h"

namespace atl::api {

// Prices of units, for the costs in GET /usage. Without a currency there are none.
struct Prices {
  std::string currency;
  double cpu_hour = 0;
  double cpu_reserved_hour = 0;
  double memory_gib_hour = 0;
  double memory_reserved_gib_hour = 0;
  double disk_gib_hour = 0;
  double network_gib = 0;
  double snapshots_gib_hour = 0;
  double parked_hour = 0;
};

struct ApiConfig {
  std::string api_key;  // empty: no key is required
  EndpointConfig endpoint;
  IngressConfig ingress;
  std::vector<std::string> private_directories;  // no answer contains a path below these
  Prices prices;
  uint64_t max_image_bytes = images::kMaxArchiveBytes;
  bool tell_isolation = false;             // /health names the tiers
  RecordPty record_pty = RecordPty::kOff;  // other than kOff needs an audit log
  bool audit_refuses = true;               // see audit::LogSettings
  size_t limit_concurrency = 0;            // requests in flight of all tenants; 0: no limit
};

class Api {
 public:
  // Everything that the API serves. Borrowed; all parts outlive the API.
  struct Parts {
    Loop& loop;
    sandbox::Sandboxes& sandboxes;
    sandbox::PendingImports& imports;
    sandbox::Volumes& volumes;
    const sandbox::Snapshots& snapshots;
    sandbox::EntrypointLogs& logs;
    sandbox::History& history;
    netpolicy::Network& network;
    images::ImageStore& images;
    const sandbox::Admission& admission;
    const sandbox::SlotPool& slots;
    const Health& health;
    Measurements& measurements;  // clients' measurements are added too
    const tenants::TenantTable& tenants;
    tenants::Directory* directory;  // null: no tenants
    std::function<MetricSet()> collect;
    // Makes the text of a backup. kFailedPrecondition: the store is incomplete.
    std::function<void(std::function<void(Result<std::string>)>)> backup = {};
    std::shared_ptr<Auditor> auditor = nullptr;  // null: no audit log
  };
  // `quit` is called after the answer to a shutdown request has been handed over.
  Api(ApiConfig config, const Parts& parts, std::function<void()> quit);
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // Applies to later requests. All earlier tokens of sandboxes become invalid. The caller ends the
  // connections in flight.
  void SetApiKey(const std::string& api_key);

  // Returns true as long as what has authorised an exchange holds (http::Exchange::SetAuthority):
  // its key lives and has the same rights. Always true for an exchange without authority.
  bool Stands(const std::string& authority) const;

  // Applies to later requests.
  void SetLimit(size_t limit_concurrency) { shares_.SetLimit(limit_concurrency); }
  // Returns the number of requests that found their tenant's share of limit_concurrency taken.
  uint64_t refused() const { return shares_.refused(); }

  const Router& router() const { return router_; }
  void AddMetrics(MetricSet* metrics) const;
  // Returns the answer to GET /metrics. `tenant`: only what has this label.
  http::Response MetricsResponse(const std::optional<std::string>& tenant = std::nullopt) const;
  // Returns the route of a request for metrics: "/v1/sandboxes/{sandbox_id}", named as in upstream,
  // or "unknown". A call to execd's API, by any form of route, gets execd's route:
  // "/sandboxes/{sandbox_id}/proxy/44772/command". Other routes into a sandbox end in
  // {full_path:path}.
  std::string TemplateOf(const http::Request& request) const;

  // Handles one request; the handler for http::Server::Listen. `known`: the sender, if the
  // connection itself says who that is; else the request's key does.
  void Handle(std::shared_ptr<http::Exchange> exchange,
              const std::optional<tenants::Identity>& known = std::nullopt);

 private:
  void AddSandboxRoutes();
  void AddImageRoutes();
  void AddVolumeRoutes();
  void AddSnapshotRoutes();
  void AddPoolRoutes();
  void AddTemplateRoutes();
  void AddOperatorRoutes();
  void AddDiagnosticsRoutes();
  void AddNetworkRoutes();
  void AddTenantRoutes();
  void AddAuditRoutes();
  void AddHistoryRoutes();
  void AddRecordingRoutes();
  void AddUsageRoutes();

  void CreateSandbox(const Call& call);
  void ForkSandbox(const Call& call);
  void RollBackSandbox(const Call& call);
  void DiffSandbox(const Call& call);
  void MeasureSandbox(const Call& call);
  void TakeSnapshot(const Call& call);
  void ExportSnapshot(const Call& call, const std::string& form);
  void ImportSnapshot(const Call& call);
  void ListSnapshots(const Call& call);
  void GetSnapshot(const Call& call);
  void DeleteSnapshot(const Call& call);
  void CreatePool(const Call& call);
  void ResizePool(const Call& call);
  void CreateTemplate(const Call& call);
  void ListTemplates(const Call& call);
  void CreateVolume(const Call& call);
  void GetVolume(const Call& call);
  void ListSandboxes(const Call& call);
  void GetSandbox(const Call& call);
  void DeleteSandbox(const Call& call);
  void RenewSandbox(const Call& call);
  void PauseSandbox(const Call& call);
  void ResumeSandbox(const Call& call);
  void PatchMetadata(const Call& call);
  void GetEndpoint(const Call& call);
  void GetNetwork(const Call& call);
  void GetLogs(const Call& call);
  void GetEvents(const Call& call);
  void GetAllEvents(const Call& call);
  void ListHistory(const Call& call);
  void GetHistory(const Call& call);
  void GetHistoryLogs(const Call& call);
  void ListRecordings(const Call& call);
  void GetRecording(const Call& call);
  // Returns whether the caller may see the sandbox, which may be gone; if not, it has answered.
  bool KnowsSandbox(const Call& call, const std::string& id);
  void Inspect(const Call& call);
  void Summarise(const Call& call);
  Result<DiagnosticsSubject> Diagnose(const sandbox::Sandbox& found);
  void ImportImage(const Call& call);
  void CommitImage(const Call& call);
  void TagImage(const Call& call, const std::string& from);
  void PruneImages(const Call& call);
  void VerifyImage(const Call& call);
  void ExportImage(const Call& call, const std::string& form);
  // Returns the pool or template that uses the image, without the name of one that the caller does
  // not see; empty if none does.
  std::string StockOf(const tenants::Caller& caller, const images::Image& image) const;
  // Returns the sorted ids of the image's sandboxes that the caller sees and that have not ended.
  std::vector<std::string> UsersOf(const tenants::Caller& caller, const images::Image& image) const;
  void ImportSaved(const Call& call, UniqueFd archive, std::string name,
                   sandbox::PendingImports::Id pending);
  // Opens a file for the upload that follows. Null: no room; the client has got the refusal.
  std::shared_ptr<UniqueFd> NewArchive(const Call& call, Doing doing);
  // Reads the body into `archive`, then calls `then`. On failure it answers first, then calls
  // `then`.
  void SaveArchive(const Call& call, const std::shared_ptr<UniqueFd>& archive, Doing doing,
                   std::function<void(const Status&)> then);
  // `form` is "oci" or "docker", as the client spells it.
  void SendArchive(const Call& call, const images::Image& image, const std::string& form,
                   Doing doing);
  void Shutdown(const Call& call);
  void GetHealth(const Call& call);
  // Returns the tenant of the path, or null after it has answered.
  tenants::SharedTenant FindTenant(const Call& call) const;
  // Returns the caller for an object that the request names by a name instead of an id, which each
  // tenant may have given to an object of its own. `?tenant=NAME` selects the tenant for callers
  // who reach the objects of all. It is ignored for other callers, who have only the names of their
  // own, and without tenants.
  tenants::Caller NamesOf(const Call& call) const;
  // Returns whether the caller may see keys, or change them; if not, it has answered.
  bool MayHandleKeys(const Call& call, bool of_host, bool changes) const;
  void ListKeys(const Call& call, bool of_host);
  // Answers with the key, once it survives a power cut.
  void AnswerNewKey(const Call& call, Result<tenants::NewKey> made);
  void MakeKey(const Call& call, bool of_host);
  void RevokeKey(const Call& call, bool of_host);
  void RotateKey(const Call& call, bool of_host);
  void CheckTenants(const Call& call);

  // Returns false if the call was refused, because its event could not be recorded.
  bool BeginAudit(Call* call, const Rights& rights, std::string_view pattern);
  void ReadAudit(const Call& call);
  void EndAuditSearch(const std::optional<std::string>& place);
  // Prepares what judges requests into sandboxes on a daemon with tenants.
  void JudgeProxied();
  void Route(Call call, const std::optional<tenants::Identity>& known);
  // Judges the identity, takes a place for the caller, then calls the handler.
  void Enter(Call call, Router::Match match, const tenants::Identity& identity);
  void Answer(Call call, Router::Match match);

  ApiConfig config_;
  const Parts parts_;
  std::function<void()> quit_;
  Router router_;
  GuessLimit guesses_;
  Shares shares_;
  Authenticator authenticator_;
  std::unique_ptr<TerminalRecorder> recorder_;  // null: terminals are not recorded
  // The next four are empty without tenants.
  KeyLookup keys_;
  std::unique_ptr<ProxyJudge> judge_;
  std::unique_ptr<AdminEntries> admin_entries_;
  std::function<void(const Call&, std::function<void(Parsed<tenants::Identity>)>)> identify_;
  // The searches of the audit log in hand: one for each tenant, and one for those who see all
  // tenants, which no tenant can be in the way of.
  std::set<std::optional<std::string>> audit_searches_;
  // A search may read all files, so those of tenants run one after another, or they would take all
  // pool threads. The first one is running.
  std::deque<std::function<void()>> tenant_searches_;
  std::set<std::optional<std::string>> usage_askers_;  // owners whose question is not answered yet
};

}  // namespace atl::api
