// Makes the records and the host agree: at the start, for a new spawner, and periodically. Ends all
// sandboxes at a shutdown.
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
#include "runtime/sandbox/ends/departures.h"
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

// Kinds of disagreement between records, spawner and kernel while nothing was in flight.
enum class Difference : uint8_t {
  kOrphan,      // processes without a record
  kVanished,    // the record says running, and there are no processes
  kMissedExit,  // it has ended, and the daemon missed the exit
  kForgotten,   // the record says being removed, and no release is in flight
  kStuck,       // its removal has taken a minute
  kFreeze,      // it should run and is frozen, or the reverse
  kSlot,        // a slot without a user, or prepared on one side only
  kLink,        // the link of a slot that has been free for long
  kStray,       // cgroup or files of a free slot
  kLoose,       // its processes are outside its cgroups
};
inline constexpr int kDifferences = 10;
std::string_view DifferenceName(int difference);

class Reconciler {
 public:
  // All parts outlive this object.
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
    Departures& departures;
    Rollbacks& rollbacks;
    WarmPools& pools;
    Templates& templates;
  };
  // Returns whether processes run in a slot. Asked while there is no spawner.
  using HasProcesses = std::function<Result<bool>(uint32_t slot)>;
  Reconciler(const Parts& parts, HasProcesses has_processes)
      : parts_(parts), has_processes_(std::move(has_processes)) {}
  Reconciler(const Reconciler&) = delete;
  Reconciler& operator=(const Reconciler&) = delete;
  ~Reconciler() { parts_.loop.Cancel(compare_timer_); }

  // Loads the records and makes the host agree with them. Call once, before anything else.
  Status Start(const wire::Greeting& hello);
  // Like Start, for a spawner that replaced another while the daemon ran.
  void Reconcile(const wire::Greeting& hello);
  // The spawner is gone, until Reconcile. Meanwhile the kernel tells which sandboxes have ended.
  void OnSpawnerLost() { ticks_without_spawner_ = 1; }
  // A process 1 has ended: of a sandbox, a pool's member, or a version that a rollback builds.
  void OnExit(const wire::SandboxRecord& record);

  // Ends every sandbox, the spawner, and the network's state. Nothing can be created afterwards.
  void Shutdown(std::function<void(Status)> done);

  const std::array<uint64_t, kDifferences>& differences() const { return differences_; }

 private:
  // Opens logs and history. A failure costs only these, not the sandboxes.
  void StartDiagnostics();
  // Gives the network rules to the spawner, which holds them when the daemon is gone.
  void KeepRules();
  // Call at start: fails acknowledged creates of an earlier daemon that cannot be built any more.
  void GiveUpPending(const wire::Greeting& hello);
  void RemoveStaleSockets() const;
  // Returns the slots with the policies of their sandboxes.
  std::vector<netpolicy::LiveSlot> LiveSlots(const std::vector<uint32_t>& numbers) const;
  RecoveryPlan PlanFor(const wire::Greeting& hello) const;
  void CarryOut(const RecoveryPlan& plan);
  std::vector<uint32_t> OwnedSlots() const;

  void CompareLater();
  // Ends sandboxes whose processes are gone, after some seconds without a spawner.
  void EndWithoutSpawner();
  // Returns true if something differed.
  bool Compare(const wire::Greeting& hello);
  // Pool members that the spawner does not have, or that have ended.
  struct LostMembers {
    uint64_t vanished = 0;
    uint64_t exited = 0;
  };
  LostMembers CompareMembers(const wire::Greeting& hello, RecoveryPlan& plan);

  const Parts parts_;
  const HasProcesses has_processes_;
  Loop::Id compare_timer_ = 0;
  int quiet_ticks_ = 0;
  int ticks_without_spawner_ = 0;  // 0: there is a spawner
  uint64_t removed_seen_ = 0;      // Endings::removed at the last tick
  uint64_t removed_compared_ = 0;  // the same at the last comparison
  std::array<uint64_t, kDifferences> differences_{};
};

}  // namespace atl::sandbox
