// Owns all parts that manage sandboxes, in the order of their dependencies. sandboxes.cc holds the
// two tables that tie the parts to the state machine: the effect of each action, and the watchers.
// Each request goes directly to the part that carries it out.
//
// Thread rule: on the loop; nothing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cgroup/meters.h"
#include "images/image_store.h"
#include "images/puller.h"
#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/health.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/copies/copies.h"
#include "runtime/sandbox/copies/forks.h"
#include "runtime/sandbox/copies/rollbacks.h"
#include "runtime/sandbox/create/admission.h"
#include "runtime/sandbox/create/builder.h"
#include "runtime/sandbox/create/check.h"
#include "runtime/sandbox/create/creates.h"
#include "runtime/sandbox/create/launches.h"
#include "runtime/sandbox/create/orphans.h"
#include "runtime/sandbox/create/pending_imports.h"
#include "runtime/sandbox/create/slot_pool.h"
#include "runtime/sandbox/ends/departures.h"
#include "runtime/sandbox/ends/endings.h"
#include "runtime/sandbox/live/changes.h"
#include "runtime/sandbox/live/pauses.h"
#include "runtime/sandbox/live/session_channels.h"
#include "runtime/sandbox/live/vaults.h"
#include "runtime/sandbox/orders.h"
#include "runtime/sandbox/output/entrypoint_logs.h"
#include "runtime/sandbox/output/recordings.h"
#include "runtime/sandbox/recovery/reconciler.h"
#include "runtime/sandbox/snapshots/snapshots.h"
#include "runtime/sandbox/state/attempts.h"
#include "runtime/sandbox/state/expiry.h"
#include "runtime/sandbox/state/group_counts.h"
#include "runtime/sandbox/state/host_budget.h"
#include "runtime/sandbox/state/layers.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/state/terms.h"
#include "runtime/sandbox/state/waiters.h"
#include "runtime/sandbox/stock/members.h"
#include "runtime/sandbox/stock/templates.h"
#include "runtime/sandbox/stock/warm_pools.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/pool_store.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/store/template_store.h"
#include "runtime/sandbox/usage/meter.h"
#include "runtime/sandbox/volumes/lost_volumes.h"
#include "runtime/sandbox/volumes/object_volumes.h"
#include "runtime/sandbox/volumes/volumes.h"
#include "runtime/tenants/tenant_table.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class Sandboxes {
 public:
  // All parts outlive this object.
  struct Parts {
    Loop& loop;
    const Clock& clock;
    launch::SpawnerClient& spawner;
    netpolicy::Network& network;
    images::ImageStore& images;
    Store& store;
    SlotPool& slots;
    Admission& admission;
    PendingImports& imports;
    images::Puller& puller;
    Volumes& volumes;
    ObjectVolumes& objects;
    Snapshots& snapshots;
    PoolStore& pools;
    TemplateStore& templates;
    EntrypointLogs& logs;
    History& history;
    Health& health;  // its subject is "sandboxes"
    const tenants::TenantTable& tenants;
  };
  struct Settings {
    std::string socket_directory;  // <run_dir>/sandboxes
    uint32_t instance = 0;         // see Registry
    HostBudget budget;
    Check::Settings check;
    std::optional<int64_t> keep_ended_seconds;      // see Expiry
    std::optional<int64_t> renew_interval_seconds;  // see Changes
    IdleWatch::CpuMicros cpu_micros = [](uint32_t) { return 0; };
    Reconciler::HasProcesses has_processes = [](uint32_t) { return true; };
    Departures::Settings history;
    std::string recordings;          // directory of recorded terminals; empty: none are
    Meter::Sources meter;            // its functions of the loop are set by Sandboxes
    uint32_t parked_sandboxes = 64;  // limit for all pools and templates together
    uint32_t automatic_pools = 0;    // limit for pools that the daemon makes itself
    // PEM file of the certificate authorities that interceptors trust in servers
    std::string authorities;
    // A record's message never names a path below one of these directories (private_paths.h).
    std::vector<std::string> private_directories;
  };
  Sandboxes(const Parts& parts, Settings settings);
  Sandboxes(const Sandboxes&) = delete;
  Sandboxes& operator=(const Sandboxes&) = delete;
  ~Sandboxes() { attempts.End(); }

  // Ends and forgets all sandboxes and stops the spawner. Their counters are stored first, because
  // the spawner keeps no reading of them.
  void Shutdown(std::function<void(Status)> done);

  // C++ destroys these members in reverse order, so a part that uses another stands below it.
  Registry registry;
  TermsTable terms;
  Room room;
  Layers layers;
  Waiters waiters;
  Machine machine;
  Attempts attempts;
  GroupCounts counts;
  Meter meter;
  Expiry expiry;
  Vaults vaults;
  SessionChannels sessions;
  LostVolumes lost_volumes;
  Builder builder;
  Orphans orphans;
  Check check;
  Launches launches;
  Creates creates;
  Pauses pauses;
  Changes changes;
  Recordings recordings;
  Departures departures;
  Endings endings;
  Copies copies;
  Forks forks;
  Rollbacks rollbacks;
  WarmPools pools;
  Members members;
  Templates templates;
  Orders orders;
  Reconciler reconciler;

 private:
  void Register(const Parts& parts);
};

}  // namespace atl::sandbox
