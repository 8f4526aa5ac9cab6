// Makes records and host agree: at a start, with a new spawner, and while all runs, by looking from
// time to time. Ends all of it at a shutdown.
//
// Thread rule: on the loop.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/health.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/copies/rollbacks.h"
#include "runtime/sandbox/create/orphans.h"
#include "runtime/sandbox/create/slot_pool.h"
#include "runtime/sandbox/ends/endings.h"
#include "runtime/sandbox/live/pauses.h"
#include "runtime/sandbox/output/entrypoint_logs.h"
#include "runtime/sandbox/recovery/recovery.h"
#include "runtime/sandbox/state/attempts.h"
#include "runtime/sandbox/state/expiry.h"
#include "runtime/sandbox/state/host_budget.h"
#include "runtime/sandbox/state/layers.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/state/waiters.h"
#include "runtime/sandbox/stock/templates.h"
#include "runtime/sandbox/stock/warm_pools.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/volumes/volumes.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

// Kinds of disagreement between records, spawner and kernel while nothing was under way.
enum class Difference : uint8_t {
  kOrphan,      // processes without a record
  kVanished,    // a record of a running one without processes
  kMissedExit,  // it has ended, and nobody was told
  kForgotten,   // recorded as being removed, and nobody is at it
  kStuck,       // being removed for a minute
  kFreeze,      // it should run and stands still, or the other way round
  kSlot,        // used by nobody, or prepared on one side only
  kLink,        // of a slot that has been free for long
  kStray,       // cgroup or files of a slot that is free
  kLoose,       // its processes are not in its cgroups
};
inline constexpr int kDifferences = 10;
std::string_view DifferenceName(int difference);

class Reconciler {
 public:
  // All parts outlive it.
  struct Parts {
    Loop& loop;
    const Clock& clock;
    launch::SpawnerClient& spawner;
    netpolicy::Network& network;
    Store& store;
    SlotPool& slots;
    Volumes& volumes;
    EntrypointLogs& logs;
    History& history;
    Health& health;  // its subject is "sandboxes"
    Expiry& expiry;
    Registry& registry;
    Room& room;
    Layers& layers;
    Machine& machine;
    Waiters& waiters;
    Attempts& attempts;
    Orphans& orphans;
    Pauses& pauses;
    Endings& endings;
    Rollbacks& rollbacks;
    WarmPools& pools;
    Templates& templates;
  };
  // Tells whether anything runs in a slot, asked while there is no spawner to tell.
  using HasProcesses = std::function<Result<bool>(uint32_t slot)>;
  Reconciler(const Parts& parts, HasProcesses has_processes)
      : parts_(parts), has_processes_(std::move(has_processes)) {}
  Reconciler(const Reconciler&) = delete;
  Reconciler& operator=(const Reconciler&) = delete;
  ~Reconciler() { parts_.loop.Cancel(compare_timer_); }

  // Loads the records, then makes them and the host agree. Once, before anything else.
  Status Start(const wire::Greeting& hello);
  // The same for a spawner that replaced another while we ran.
  void Reconcile(const wire::Greeting& hello);
  // There is none, until Reconcile. Meanwhile the kernel is asked which sandboxes have ended.
  void OnSpawnerLost() { ticks_without_spawner_ = 1; }
  // A process 1 has ended, in whatever it is: a sandbox, a member of a pool, or what a rollback
  // builds.
  void OnExit(const wire::SandboxRecord& record);

  // Ends every sandbox, the spawner, and what the network holds. Nothing can be created afterwards.
  void Shutdown(std::function<void(Status)> done);

  const std::array<uint64_t, kDifferences>& differences() const { return differences_; }

 private:
  // Logs and history: what fails here costs them, not the sandboxes.
  void StartDiagnostics();
  // The spawner holds our rules when we are gone.
  void KeepRules();
  // At start: those that an earlier daemon had acknowledged, and can build no more.
  void GiveUpPending(const wire::Greeting& hello);
  void RemoveStaleSockets() const;
  // With what their sandboxes may reach.
  std::vector<netpolicy::LiveSlot> LiveSlots(const std::vector<uint32_t>& numbers) const;
  RecoveryPlan PlanFor(const wire::Greeting& hello) const;
  void CarryOut(const RecoveryPlan& plan);
  std::vector<uint32_t> OwnedSlots() const;

  void CompareLater();
  // Those whose processes are gone; after some seconds without a spawner.
  void EndWithoutSpawner();
  // True if something differed.
  bool Compare(const wire::Greeting& hello);
  // Members of pools that the spawner has not, or no more.
  struct LostMembers {
    uint64_t vanished = 0;
    uint64_t exited = 0;
  };
  LostMembers CompareMembers(const wire::Greeting& hello, RecoveryPlan& plan);

  const Parts parts_;
  const HasProcesses has_processes_;
  Loop::Id compare_timer_ = 0;
  int quiet_ticks_ = 0;
  int ticks_without_spawner_ = 0;  // 0: there is one
  uint64_t removed_seen_ = 0;      // Endings::removed, at the last tick
  uint64_t removed_compared_ = 0;  // at the last comparison
  std::array<uint64_t, kDifferences> differences_{};
};

}  // namespace atl::sandbox
